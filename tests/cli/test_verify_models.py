"""`verify` and models that are not like Qwen3: with float32 or chance inside, with images, changed once made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import planlang
from planlang.cli.main import run
from planlang.model.pretrained import config_from
from planlang.runtime.verify import memory
from planlang.runtime.verify.cases import cases
from tests.cases import CORPUS

ATTENTION = """\
*.self_attn.{q,k,v}_proj: colwise
*.self_attn.o_proj:       rowwise
"""
NORMS = "*.self_attn.{q,k}_norm:   sequence(dim=2, local=true)\n"


@pytest.fixture(autouse=True)
def few_circumstances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planlang.runtime.verify.cases.cases", lambda ranks: (cases(ranks)[0], cases(ranks)[6]))


def plan(rules: str, cls: str = "Qwen3ForCausalLM") -> planlang.Plan:
    return planlang.loads(f"plan mine for {cls}\n\n{rules}")


def refused(model: Any, rules: str = ATTENTION + NORMS) -> planlang.Finding:
    with pytest.raises(planlang.PlanError) as raised:
        planlang.verify(plan(rules), model, tp=2)
    (finding,) = raised.value.findings
    return finding


def config(**settings: Any) -> Any:
    facts = json.loads((CORPUS / "configs" / "qwen3.json").read_text(encoding="utf-8"))
    return config_from({**facts, **settings})


def test_gradients_that_the_model_sums_in_float32() -> None:
    """With them as they are, other orders of their sums are off by 1e-7: rounding, and no tolerance of float64's."""
    for rules in (ATTENTION + NORMS, "*.self_attn.o_proj: colwise(out=replicate)\n"):
        found = planlang.verify(plan(rules, "Qwen3_5ForCausalLM"), "Qwen/Qwen3.5-0.8B", tp=2)
        assert found.ok, found.findings
        assert max(each.tolerance for each in found.results) < 1e-9
    found = planlang.verify(plan(ATTENTION, "Qwen3_5ForCausalLM"), "Qwen/Qwen3.5-0.8B", tp=2)
    assert [each.code.number for each in found.findings] == ["PLN5007"]


@pytest.mark.parametrize("model", ["Qwen/Qwen2-VL-2B", "Qwen/Qwen2.5-VL-3B-Instruct"])
def test_heads_that_rotary_embeddings_cut_into_parts(model: str) -> None:
    found = planlang.verify(plan(ATTENTION, "Qwen2VLForConditionalGeneration"), model, tp=2)
    assert found.ok, found.findings


def test_dropout_of_another_name_is_switched_off() -> None:
    small = transformers.GPT2Config(n_layer=1, n_head=4, n_embd=32, vocab_size=64, bos_token_id=0, eos_token_id=0)
    assert small.attn_pdrop > 0
    found = planlang.verify(plan("*.ln_1: sequence(local=true)\n", "GPT2LMHeadModel"), small, tp=2)
    assert [each.outcome.verdict for each in found.results] == ["gradient", "gradient"]
    assert max(each.tolerance for each in found.results) < 1e-9


def test_a_model_that_draws_random_numbers_is_refused() -> None:
    class Qwen3ForCausalLM(transformers.Qwen3ForCausalLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output = super().forward(*args, **kwargs)
            output.logits = output.logits + torch.randn_like(output.logits)
            return output

    with torch.device("meta"):
        model = Qwen3ForCausalLM(config())
    finding = refused(model)
    assert finding.code.number == "PLN0014"
    assert "does not compute the same twice (training)" in finding.message


@pytest.mark.parametrize(
    "returned", [lambda logits: {"logits": logits}, lambda logits: [logits], lambda logits: (logits,)]
)
def test_logits_in_other_things(returned: Any) -> None:
    class Qwen3ForCausalLM(transformers.Qwen3ForCausalLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return returned(super().forward(*args, **kwargs).logits)

    with torch.device("meta"):
        model = Qwen3ForCausalLM(config())
    assert planlang.verify(plan(ATTENTION + NORMS), model, tp=2).ok


@pytest.mark.parametrize(
    ("output", "said"), [(None, "`NoneType`"), ((), "`tuple`"), (torch.arange(3), "`torch.int64`")]
)
def test_no_logits(output: Any, said: str) -> None:
    class Qwen3ForCausalLM(transformers.Qwen3ForCausalLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return output

    with torch.device("meta"):
        model = Qwen3ForCausalLM(config())
    finding = refused(model)
    assert finding.code.number == "PLN0014"
    assert f"the model returns no logits, but {said}" in finding.message


def test_a_model_that_was_changed_after_it_was_made() -> None:
    with torch.device("meta"):
        model = transformers.Qwen3ForCausalLM(config())
        for layer in model.model.layers:
            layer.mlp.up_proj = nn.Sequential(layer.mlp.up_proj)
    finding = refused(model, "*.mlp.up_proj.0: colwise(out=replicate)\n")
    assert finding.code.number == "PLN0011"
    assert "`model.layers.0.mlp.up_proj.0`" in finding.message


def test_too_many_ranks_for_the_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.plan"
    path.write_text("plan a for Qwen3ForCausalLM\n\nlm_head: colwise(local=false)\n")
    assert run(["verify", str(path), "--model", "Qwen/Qwen3-8B", "--tp", "65536"]) == 2
    assert "error[PLN0015]: 65536 ranks need " in capsys.readouterr().out


def test_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:      3 kB\n")
    assert memory._available(tmp_path / "meminfo") == 3072
    assert memory._available(tmp_path / "none") is memory._left(tmp_path) is None
    for name, text in (
        ("memory.max", "1000\n"),
        ("memory.current", "700\n"),
        ("memory.stat", "anon 1\ninactive_file 50\n"),
    ):
        (tmp_path / name).write_text(text)
    assert memory._left(tmp_path) == 350
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._left(tmp_path) is None
    monkeypatch.setattr(memory, "_available", lambda: None)
    monkeypatch.setattr(memory, "_left", lambda group: None)
    monkeypatch.delattr("os.sysconf")
    assert memory.free_memory() is None
    assert memory.refused(2**60, 2) is None


def test_numbers_of_ranks_that_are_none() -> None:
    with pytest.raises(ValueError, match="no number of ranks"):
        planlang.verify("qwen", "Qwen/Qwen3-0.6B", tp=[])
    for odd in (2.0, "2", [2, "4"]):
        with pytest.raises(TypeError, match="whole number"):
            planlang.verify("qwen", "Qwen/Qwen3-0.6B", tp=odd)  # type: ignore[arg-type]
