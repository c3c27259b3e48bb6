"""`planlang.check` in Python: models that are modules, configurations, and what cannot be captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM, ViTConfig

import planlang
from planlang.checker import findings_of


class Pair(nn.Module):
    """Two layers, one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(torch.relu(self.up(x)))
        return y


class Deciding(Pair):
    """Its code looks at the data."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.up(x)
        return super().forward(x) if y.sum().item() > 0 else x


class Twice(torch.autograd.Function):
    """Doubles, with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 2 * gradients[0]


class Doubled(Pair):
    """Its code has an autograd function."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(Twice.apply(self.up(x)))  # type: ignore[no-untyped-call]
        return y


class Scaled(Pair):
    """Its code computes with a width as a float."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x)
        z: Tensor = self.down(y / y.shape[-1] ** 0.5)
        return z


class Plain(nn.Module):
    """No linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x)
        return y


def plan(rules: str) -> planlang.Plan:
    return planlang.loads(f"plan mine for Pair, Deciding, Plain, Doubled, Scaled\n\n{rules}")


def codes(reports: tuple[planlang.Report, ...]) -> list[str]:
    return [finding.code.number for finding in findings_of(reports)]


RIGHT = "up: colwise\ndown: rowwise\n"
INPUT = (torch.ones(3, 8),)


def test_any_module_is_checked_at_example_inputs() -> None:
    (report,) = planlang.check(plan(RIGHT), Pair(), tp=2, example_inputs=INPUT)
    assert report.ok
    assert report.proved
    (wrong,) = planlang.check(plan("up: colwise\n"), Pair(), tp=2, example_inputs={"x": INPUT[0]})
    assert codes((wrong,)) == ["PLN4005", "PLN8001"]
    assert not wrong.ok


def test_without_example_inputs_the_finding_asks_for_them() -> None:
    (report,) = planlang.check(plan(RIGHT), Pair(), tp=2)
    assert codes((report,)) == ["PLN4016"]
    assert "example_inputs" in report.findings[0].help
    assert report.ok
    assert not report.proved


def test_example_inputs_are_for_modules() -> None:
    with pytest.raises(TypeError, match="a model that is a module"):
        planlang.check(plan(RIGHT), "Qwen/Qwen3-0.6B", example_inputs=INPUT)


def test_code_that_looks_at_data_is_not_called_right_where_each_rank_has_a_part() -> None:
    (report,) = planlang.check(plan(RIGHT), Deciding(), tp=2, example_inputs=INPUT)
    assert not report.ok
    assert not report.proved


def test_a_backward_of_its_own_is_not_known_where_each_rank_has_a_part() -> None:
    (report,) = planlang.check(plan(RIGHT), Doubled(), tp=2, example_inputs=INPUT)
    assert "PLN4014" in codes((report,))
    assert not report.proved
    (whole,) = planlang.check(plan("up: colwise(out=replicate)\n"), Doubled(), tp=2, example_inputs=INPUT)
    assert whole.proved


def test_a_length_that_becomes_a_float_is_another_one_where_each_rank_has_a_part() -> None:
    (report,) = planlang.check(plan(RIGHT), Scaled(), tp=2, example_inputs=INPUT)
    assert codes((report,)) == ["PLN4010"]
    (whole,) = planlang.check(plan("up: colwise(out=replicate)\n"), Scaled(), tp=2, example_inputs=INPUT)
    assert whole.proved


@pytest.mark.parametrize(("width", "said"), [(4, []), (1, ["PLN8004"])])
def test_the_gradient_of_what_is_repeated_is_a_sum(width: int, said: list[str]) -> None:
    blocks = planlang.loads("plan mine for Grouped\n\nup: colwise(invariant=2)\ndown: rowwise(invariant=2)\n")
    (report,) = planlang.check(blocks, Grouped(width), tp=2, example_inputs=INPUT)
    assert report.proved
    assert codes((report,)) == said


@pytest.mark.parametrize("tp", [1, 2])
def test_blocks_are_cut_on_one_rank_too(tp: int) -> None:
    cut = planlang.loads("plan mine for Plain\n\nnorm: sequence(dim=-1, invariant=2)\n")
    (report,) = planlang.check(cut, Plain(), tp=tp, example_inputs=INPUT)
    assert "PLN4003" in codes((report,))
    assert report.sizes == {"tp": tp}


@pytest.mark.parametrize("limit", [None, 1.0])
def test_an_embedding_with_a_largest_norm_is_not_known(limit: float | None) -> None:
    table = nn.Sequential(nn.Embedding(8, 4, max_norm=limit))
    split = planlang.loads("plan mine for Sequential\n\n0: rowwise(in=replicate)\n")
    (report,) = planlang.check(split, table, tp=2, example_inputs=(torch.arange(6).view(2, 3),))
    assert report.proved == (limit is None)
    assert ("PLN4014" in codes((report,))) == (limit is not None)


def test_a_model_without_a_linear_layer() -> None:
    (report,) = planlang.check(plan("norm: replicate(grad=none)\n"), Plain(), tp=2, example_inputs=INPUT)
    assert report.proved
    (wrong,) = planlang.check(plan("norm: colwise\n"), Plain(), tp=2, example_inputs=INPUT)
    assert not wrong.ok


@pytest.mark.parametrize("model", [lambda: _config(), lambda: "Qwen/Qwen3-0.6B"], ids=["config", "name"])
def test_a_configuration_and_a_name_are_checked_alike(model: Callable[[], object]) -> None:
    reports = planlang.check(planlang.load("qwen_stable"), model(), tp=[2, 4])  # type: ignore[arg-type]
    assert [report.sizes for report in reports] == [{"tp": 2}, {"tp": 4}]
    assert all(report.proved for report in reports)


def _config() -> Qwen3Config:
    return Qwen3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=8,
        architectures=["Qwen3ForCausalLM"],
    )


def test_a_model_that_takes_no_tokens_is_a_warning_that_says_what_it_takes() -> None:
    config = ViTConfig(
        num_hidden_layers=1, hidden_size=32, intermediate_size=64, architectures=["ViTForImageClassification"]
    )
    sure = planlang.loads("plan mine for ViTForImageClassification\n\n**.mlp.fc1: colwise(out=replicate)\n")
    (report,) = planlang.check(sure, config, tp=2)
    warning = next(finding for finding in report.findings if finding.code.number == "PLN4016")
    assert "pixel_values" in warning.notes[0]
    assert report.ok
    assert not report.proved


class Failing(Qwen3ForCausalLM):
    """Its code needs data: it reads a number off a tensor that has none while it is captured."""

    def forward(self, input_ids: Tensor, **kwargs: Any) -> Any:
        if self.model.norm.weight.sum().item() > 0:
            input_ids = input_ids + 0
        return super().forward(input_ids, **kwargs)


def test_code_that_needs_data_is_a_warning_that_names_the_operator() -> None:
    (report,) = planlang.check(planlang.load("qwen_stable"), Failing(_config()), tp=2)
    warning = next(finding for finding in report.findings if finding.code.number == "PLN4016")
    assert "item" in warning.notes[0]
    assert "patterns, styles, sizes and ties were checked" in warning.help
    assert not report.proved


def test_a_plan_may_be_a_name_and_nothing_else() -> None:
    (report,) = planlang.check("qwen_stable", "Qwen/Qwen3-0.6B", tp=2)
    assert report.proved
    with pytest.raises(TypeError, match="int"):
        planlang.check(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="int"):
        planlang.check("qwen_stable", 3)  # type: ignore[arg-type]


class Scaling(Pair):
    """Its code computes with a width that it reads off a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x)
        z: Tensor = self.down(y * y.shape[-1])
        return z


class Grouped(Pair):
    """Multiplies groups of four by four numbers, or by one, whose gradient is then a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        groups = self.up(x).unflatten(-1, (-1, 4))
        y: Tensor = self.down((groups * groups[..., : self.width]).flatten(-2))
        return y


class Copying(Pair):
    """Its code reads a tensor's data."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(self.up(x).data + 0)
        return y


def test_a_width_that_is_used_as_a_number() -> None:
    sure = planlang.loads("plan mine for Scaling, Copying\n\nup: colwise\ndown: rowwise\n")
    (wrong,) = planlang.check(sure, Scaling(), tp=2, example_inputs=INPUT)
    assert "PLN4010" in codes((wrong,))
    assert not wrong.ok
    (right,) = planlang.check(sure, Copying(), tp=2, example_inputs=INPUT)
    assert right.ok, right.findings


def test_there_must_be_such_a_contract_and_a_number_of_ranks() -> None:
    with pytest.raises(ValueError, match="nemo-rl"):
        planlang.check("qwen", contract="foo")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ranks"):
        planlang.check("qwen", tp=[])
