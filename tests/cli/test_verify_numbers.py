"""`verify` and what is no number: nan and inf are said to be there, and are never equal to anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import planlang
from planlang.cli.main import run
from planlang.model.pretrained import config_from
from planlang.runtime.simulate.truth import error
from planlang.runtime.verify.cases import cases
from tests.cases import CORPUS

QWEN3, UNTIED = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"
NAN, INF = float("nan"), float("inf")
STYLES = '''
"""Styles that spoil what one rank computes."""
import torch
from torch.distributed.tensor.parallel import ParallelStyle
from planlang.runtime.simulate.local import by_rank

def spoilt(tensor, value, ranks):
    return tensor * by_rank(ranks, lambda rank: torch.tensor(value if rank == 1 else 1.0))

class Output(ParallelStyle):
    def __init__(self, value):
        self.value = float(value)
    def _apply(self, module, mesh):
        module.register_forward_hook(lambda _, args, output: spoilt(output, self.value, mesh.size()))
        return module

class Gradient(Output):
    def _apply(self, module, mesh):
        def hook(_, args, output):
            output.register_hook(lambda found: spoilt(found, self.value, mesh.size()))
        module.register_forward_hook(hook)
        return module
'''


@pytest.fixture(autouse=True)
def styles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Custom styles of the module `spoiling_styles`; two circumstances are enough."""
    monkeypatch.setattr("planlang.runtime.verify.cases.cases", lambda ranks: (cases(ranks)[0], cases(ranks)[2]))
    (tmp_path / "spoiling_styles.py").write_text(STYLES)
    monkeypatch.syspath_prepend(str(tmp_path))


def only(found: planlang.Verified) -> planlang.Finding:
    (finding,) = [each for each in found.findings if each.severity == "error"]
    return finding


@pytest.mark.parametrize(("value", "name"), [("nan", "nan"), ("inf", "inf")])
def test_on_one_rank_in_the_output(value: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.plan"
    path.write_text(f'plan a for Qwen3ForCausalLM\n\nlm_head: custom "spoiling_styles:Output"(value="{value}")\n')
    found = planlang.verify(path, UNTIED, tp=2)
    assert not found.ok
    assert only(found).code.number == "PLN4022"
    assert any(f"the logits have {name} on rank 1, in " in note for note in only(found).notes), only(found)
    assert run(["verify", str(path), "--model", UNTIED, "--tp", "2", "--format", "json"]) == 1

    def no_number(text: str) -> Any:
        raise AssertionError(text)

    data = json.loads(capsys.readouterr().out, parse_constant=no_number)
    assert data["runs"][0]["forward_error"] == "inf"


def test_on_one_rank_in_the_gradients() -> None:
    text = 'plan a for Qwen3ForCausalLM\n\n*.mlp.down_proj: custom "spoiling_styles:Gradient"(value="nan")\n'
    finding = only(planlang.verify(planlang.loads(text), QWEN3, tp=2))
    assert finding.code.number == "PLN5007"
    assert "it has nan on rank 1" in finding.message


def test_in_the_model_itself() -> None:
    facts = json.loads((CORPUS / "configs" / "qwen3.json").read_text(encoding="utf-8"))
    config = config_from({**facts, "rms_norm_eps": NAN})
    with pytest.raises(planlang.PlanError) as raised:
        planlang.verify("qwen", config, tp=2)
    (finding,) = raised.value.findings
    assert finding.code.number == "PLN0014"
    assert "nan or inf in the logits of the model on one device" in finding.message


def test_a_model_whose_output_its_weights_do_not_move() -> None:
    facts = json.loads((CORPUS / "configs" / "qwen3.json").read_text(encoding="utf-8"))
    with pytest.raises(planlang.PlanError) as raised:
        planlang.verify("qwen", config_from({**facts, "rms_norm_eps": INF}), tp=2)
    (finding,) = raised.value.findings
    assert finding.code.number == "PLN0014"
    assert "all gradients of the model on one device are zero" in finding.message


def test_numerics_of_a_model_whose_output_its_weights_do_not_move() -> None:
    facts = json.loads((CORPUS / "configs" / "qwen3.json").read_text(encoding="utf-8"))
    with pytest.raises(planlang.PlanError) as raised:
        planlang.numerics("qwen", config_from({**facts, "rms_norm_eps": INF}), tp=2)
    (finding,) = raised.value.findings
    assert finding.code.number == "PLN0014"
    assert "all gradients of the model on one device are zero in bfloat16" in finding.message


def test_in_the_gradients_of_the_model_itself() -> None:
    facts = json.loads((CORPUS / "configs" / "qwen3.json").read_text(encoding="utf-8"))

    class Qwen3ForCausalLM(transformers.Qwen3ForCausalLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output = super().forward(*args, **kwargs)
            output.logits = output.logits + (0 * output.logits).sqrt()
            return output

    with torch.device("meta"):
        model = Qwen3ForCausalLM(config_from(facts))
    with pytest.raises(planlang.PlanError) as raised:
        planlang.verify("qwen", model, tp=2)
    (finding,) = raised.value.findings
    assert finding.code.number == "PLN0014"
    assert "the gradient of `" in finding.message


def test_where_another_order_of_sums_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planlang.runtime.verify.subject.tolerance", lambda *_: INF)
    with pytest.raises(planlang.PlanError) as raised:
        planlang.verify("qwen", QWEN3, tp=2)
    assert raised.value.findings[0].code.number == "PLN0014"


@pytest.mark.parametrize(("got", "right"), [(NAN, NAN), (INF, INF), (NAN, 1.0), (-INF, 1.0), (1.0, NAN), (1.0, INF)])
def test_nothing_is_equal_to_it(got: float, right: float) -> None:
    def tensor(value: float) -> Tensor:
        return torch.tensor([1.0, value])

    assert error(tensor(got), tensor(right)) == INF
