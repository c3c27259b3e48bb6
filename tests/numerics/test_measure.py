"""`planlang verify --numerics`: what is the plan's part, what the kernels', and whether grades hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import planlang
from planlang.cli.main import run
from planlang.runtime.numerics import words
from planlang.runtime.numerics.distance import UNKNOWN
from planlang.runtime.verify.narrow import WIDE

MODEL = "Qwen/Qwen3-8B"
SCORE = "Qwen3ForSequenceClassification"
# No multiples of a tile or a vector, so that all that can go wrong at an edge can.
SMALL: Mapping[str, int] = {
    **WIDE,
    "head": 16,
    "vocab_size": 200,
    "hidden_size": 104,
    "intermediate_size": 136,
    "moe_intermediate_size": 24,
}
NO_SUMS = "plan nothing for Qwen3ForCausalLM\nmesh tp\nmodel.embed_tokens: rowwise(in=replicate)\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planlang.runtime.numerics.bench.WIDE", SMALL)
    monkeypatch.setattr("planlang.measurer.LENGTH", 33)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("model", [MODEL, "Qwen/Qwen2.5-7B"])
def test_the_stable_plan_moves_no_bit_of_the_output(model: str, dtype: str) -> None:
    found = planlang.numerics(planlang.load("qwen_stable"), model, tp=[2, 4], dtype=dtype)
    assert found.ok, found.findings
    assert [each.ranks for each in found.sizes] == [2, 4]
    for each in found.sizes:
        assert each.grade == "forward-invariant"
        assert each.fixed.forward
        assert all(one.equal for one in each.fixed.modules.values())
        assert not each.fixed.backward
        assert not each.fixed.left
        assert each.source in ("none", "kernels")
        assert each.fixed.tokens is not None
        assert each.fixed.tokens.prob_error == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_row_parallel_plan_moves_them(dtype: str) -> None:
    found = planlang.numerics(planlang.load("qwen"), MODEL, tp=[2, 4], dtype=dtype)
    assert found.ok, found.findings
    for each in found.sizes:
        assert (each.grade, each.source) == ("variant", "plan")
        # In float32 two halves of 512 terms are what the kernel adds by itself, so `o_proj` may be equal.
        assert each.fixed.first in ("model.layers.0.self_attn.o_proj", "model.layers.0.mlp.down_proj")
        assert each.fixed.logits.finite
        assert each.fixed.logits.steps > 0
        assert each.fixed.tokens is not None
        assert 1 < each.fixed.tokens.prob_error < 1.05


def test_a_plan_without_sums_moves_no_gradient_either() -> None:
    found = planlang.numerics(planlang.loads(NO_SUMS), MODEL, tp=4)
    (each,) = found.sizes
    assert found.ok
    assert each.grade == "invariant"
    assert all(side.forward and side.backward for side in each.sides)


def test_a_classifier_has_no_tokens() -> None:
    found = planlang.numerics(planlang.load("qwen_stable"), MODEL, tp=2, cls=SCORE)
    (each,) = found.sizes
    assert each.fixed.forward
    assert each.fixed.tokens is None
    assert "score.weight" in each.fixed.gradients


def test_sequence_parallel_outputs_are_put_together() -> None:
    (each,) = planlang.numerics(planlang.load("qwen_sequence"), MODEL, tp=2, dtype="float64").sizes
    assert all(one.finite and one.largest < 1e-4 for one in each.fixed.modules.values())


@pytest.mark.parametrize("plan", ["qwen", "qwen_stable"])
def test_one_rank_is_one_device(plan: str) -> None:
    for reference in ("unsharded", "tp1"):
        found = planlang.numerics(planlang.load(plan), MODEL, tp=1, reference=reference)  # type: ignore[arg-type]
        (each,) = found.sizes
        assert found.reference == reference
        assert each.grade is None
        assert all(side.forward and side.backward for side in each.sides)


def test_the_plan_on_one_rank_as_reference() -> None:
    (stable,) = planlang.numerics(planlang.load("qwen_stable"), MODEL, tp=2, reference="tp1").sizes
    assert stable.fixed.forward
    assert not stable.fixed.backward
    (rowwise,) = planlang.numerics(planlang.load("qwen"), MODEL, tp=2, reference="tp1").sizes
    assert not rowwise.fixed.forward


def test_sums_in_blocks_are_held_against_the_plan_on_one_rank() -> None:
    plan = planlang.load("qwen_invariant")
    for dtype in ("bfloat16", "float32"):
        found = planlang.numerics(plan, MODEL, tp=[2, 4], dtype=dtype, reference="tp1")
        assert found.ok
        assert all(each.grade == "invariant" and each.blocks for each in found.sizes)
        assert all(side.forward and side.backward for each in found.sizes for side in each.sides)
    off = replace(found.sizes[0].default, logits=replace(found.sizes[0].default.logits, equal=False))
    (finding,) = words.judged(replace(found.sizes[0], default=off), "tp1", plan.resolved(MODEL, tp=2))
    assert finding.code.number == "PLN8002"


def test_sums_in_blocks_are_not_those_of_the_model_without_a_plan() -> None:
    found = planlang.numerics(planlang.load("qwen_invariant"), MODEL, tp=2, dtype="float32")
    assert found.ok
    assert not found.sizes[0].fixed.forward


def test_a_grade_that_does_not_hold_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planlang.measurer._grade", lambda *args: "forward-invariant")
    found = planlang.numerics(planlang.load("qwen"), MODEL, tp=2)
    assert not found.ok
    (finding,) = [each for each in found.findings if each.severity == "error"]
    assert finding.code.number == "PLN8002"
    assert "the logits on 2 ranks" in finding.message
    assert "model.layers.*.self_attn.o_proj" in finding.notes[0]
    monkeypatch.setattr("planlang.measurer._grade", lambda *args: "invariant")
    (finding,) = planlang.numerics(planlang.load("qwen_stable"), MODEL, tp=2).findings
    assert finding.code.number == "PLN8002"
    assert "the gradients of" in finding.message


def test_what_is_no_number_is_said_and_not_equal() -> None:
    found = planlang.numerics(planlang.loads(NO_SUMS), MODEL, tp=2)
    (each,) = found.sizes
    plan = planlang.loads(NO_SUMS).resolved(MODEL, tp=2)
    assert words.judged(each, "unsharded", plan) == []
    bad = replace(each, fixed=replace(each.fixed, logits=UNKNOWN, tokens=None, modules={"model.norm": UNKNOWN}))
    (finding,) = words.judged(bad, "unsharded", plan)
    assert finding.code.number == "PLN4022"
    assert "nan or inf" in finding.message
    assert "`model.norm`" in finding.notes[0]
    assert bad.source == "plan"


def test_with_the_same_plan_as_reference_kernels_are_held_to_the_grade() -> None:
    (each,) = planlang.numerics(planlang.loads(NO_SUMS), MODEL, tp=2, reference="tp1").sizes
    plan = planlang.loads(NO_SUMS).resolved(MODEL, tp=2)
    off = replace(each.default, logits=replace(each.default.logits, equal=False))
    assert words.judged(replace(each, default=off), "unsharded", plan) == []
    (finding,) = words.judged(replace(each, default=off), "tp1", plan)
    assert "with torch's kernels the logits" in finding.message


def test_a_model_whose_output_is_no_number(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 100,
        "rms_norm_eps": -1e6,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(planlang.PlanError) as raised:
        planlang.numerics(planlang.load("qwen"), tmp_path, tp=2)
    (finding,) = raised.value.findings
    assert finding.code.number == "PLN0014"
    assert "nan or inf in bfloat16" in finding.message


def test_a_model_that_fails_in_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError('"rsqrt" not implemented for this type')

    monkeypatch.setattr("torch.rsqrt", refuse)
    with pytest.raises(planlang.PlanError, match="the model itself fails on one device in float32, without any plan"):
        planlang.numerics(planlang.load("qwen"), MODEL, tp=2, dtype="float32")


def test_a_plan_that_raises() -> None:
    plan = planlang.loads('plan a for Qwen3ForCausalLM\nextends "qwen"\n*.self_attn.o_proj: rowwise(local=false)\n')
    found = planlang.numerics(plan, MODEL, tp=2)
    assert not found.sizes
    assert not found.ok
    (finding,) = [each for each in found.findings if each.severity == "error"]
    assert finding.code.number == "PLN4021"
    assert "mixed torch.Tensor and DTensor" in finding.message


def test_what_does_not_fit_into_memory_is_refused() -> None:
    plan = planlang.loads("plan a for Qwen3MoeForCausalLM\n*.self_attn.o_proj: colwise(out=replicate)\n")
    with pytest.raises(planlang.PlanError, match="GiB are free"):
        planlang.numerics(plan, "Qwen/Qwen3-235B-A22B", tp=64, full=True)


def test_operators_without_tiles_are_named() -> None:
    plan = planlang.loads("plan a for Qwen3_5ForCausalLM\n*.mlp.up_proj: colwise(out=replicate)\n")
    (each,) = planlang.numerics(plan, "Qwen/Qwen3.5-0.8B", tp=2).sizes
    assert each.fixed.left == ("convolution", "convolution_backward")
    assert each.fixed.forward


def test_wrong_arguments() -> None:
    plan = planlang.load("qwen")
    with pytest.raises(ValueError, match="bfloat16, float32, float64"):
        planlang.numerics(plan, MODEL, dtype="int8")
    with pytest.raises(ValueError, match="unsharded, tp1"):
        planlang.numerics(plan, MODEL, reference="tp2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no number of ranks"):
        planlang.numerics(plan, MODEL, tp=[])
    found = planlang.numerics(plan, MODEL, tp=3)
    assert not found.ok
    assert "does not divide" in found.findings[0].message


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "qwen_stable", "--model", MODEL, "--tp", "2,4", "--numerics"]) == 0
    out = capsys.readouterr().out
    assert "in bfloat16, batch 2, length 33, against the model without a plan" in out
    assert f"torch {torch.__version__}, CPU {torch.backends.cpu.get_cpu_capability()}" in out
    assert "tp=4, fixed tiles" in out
    assert "tp=2 (forward-invariant): " in out
    assert "token_mult_prob_error" in out
    assert "model.layers.0.self_attn.q_proj.weight" in out


def test_the_command_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--numerics", "--dtype", "float32", "--reference", "tp1", "--format", "json"]
    assert run(["verify", "qwen", "--model", MODEL, "--tp", "2", *arguments]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["findings"] == []
    assert (data["dtype"], data["reference"], data["ok"]) == ("float32", "tp1", True)
    (size,) = data["sizes"]
    assert size["source"] == "plan"
    assert size["fixed"]["modules"]["model.layers.0.mlp.down_proj"]["steps"] > 0
    assert size["fixed"]["modules"]["model.embed_tokens"]["equal"]
    assert data["machine"]["torch"] == torch.__version__


def test_the_command_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "qwen", "--model", MODEL, "--numerics", "--dtype", "float8"]) == 2
    assert "'bfloat16', 'float32', 'float64'" in capsys.readouterr().err
    assert run(["verify", "qwen", "--model", MODEL, "--dtype", "float32"]) == 2
    assert "give --numerics too" in capsys.readouterr().err
    assert run(["verify", "qwen", "--model", MODEL, "--numerics", "--processes", "2"]) == 2
    assert "leave --processes out" in capsys.readouterr().err
    assert run(["verify", "qwen", "--numerics"]) == 2
    assert "--model" in capsys.readouterr().err
    assert run(["verify", "qwen", "--model", MODEL, "--tp", "3", "--numerics"]) == 1
    assert "PLN6002" in capsys.readouterr().out
