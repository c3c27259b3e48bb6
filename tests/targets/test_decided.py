"""What the conditions of a plan were decided with goes with it as data, and another size or model is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import planlang
from planlang.plan import ir

HEAD = "plan x for Qwen3ForCausalLM\n"
RULES = "*.mlp.up_proj: colwise\n"
BRANCHES = HEAD + "when tp > 2 {\n    *.mlp.up_proj: colwise\n} else {\n    *.mlp.gate_proj: colwise\n}\n"
LARGE, SMALL = "Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"


def written(text: str, folder: Path, target: str = "yaml", **settings: Any) -> Path:
    path = folder / f"x.{target}"
    path.write_text(planlang.compile(planlang.loads(text), target=target, **settings))
    return path


def codes_of(error: pytest.ExceptionInfo[planlang.PlanError]) -> list[str]:
    return [finding.code.name for finding in error.value.findings]


@pytest.mark.parametrize("target", ["yaml", "json"])
def test_another_size_is_refused(target: str, tmp_path: Path) -> None:
    path = written(BRANCHES, tmp_path, target, tp=4)
    plan = planlang.load(path)
    for tp in (None, 4):
        assert list(plan.styles(tp=tp)) == ["model.layers.*.mlp.up_proj"]
    with pytest.raises(planlang.PlanError, match="decided for tp=4, and tp=2 is asked for") as refused:
        plan.styles(tp=2)
    assert codes_of(refused) == ["decided-otherwise"]
    assert "Mesh: tp=4." in planlang.compile(path)
    assert planlang.compile(path, target=target) == path.read_text()


@pytest.mark.parametrize("target", ["yaml", "json"])
def test_another_model_is_refused(target: str, tmp_path: Path) -> None:
    condition = 'config.num_hidden_layers > 30 and config.hidden_act == "silu" and config.rms_norm_eps < 1'
    text = HEAD + f"when {condition} {{\n    {RULES}}}\n"
    from transformers import Qwen3Config

    large = Qwen3Config(num_hidden_layers=36, architectures=["Qwen3ForCausalLM"])
    small = Qwen3Config(num_hidden_layers=8, architectures=["Qwen3ForCausalLM"])
    original = planlang.loads(text).resolved(large)
    path = written(text, tmp_path, target, model=large)
    plan = planlang.load(path)
    assert plan.resolved(large) == original == plan.resolved()
    assert dict(original.decided.config) == {"num_hidden_layers": 36, "hidden_act": "silu", "rms_norm_eps": 1e-06}
    with pytest.raises(planlang.PlanError, match=r"config.num_hidden_layers=36, and of this model it is 8") as refused:
        plan.styles(small)
    assert codes_of(refused) == ["decided-otherwise"]
    with pytest.raises(planlang.PlanError, match=r"`Qwen/Qwen3-8B` has no such setting"):
        plan.styles(LARGE)


@pytest.mark.parametrize(
    ("condition", "sizes", "config"),
    [
        ("tp > 2", {"tp": 4}, {}),
        ("deep and tp > 2", {}, {}),
        ("tp > 2 and deep", {}, {}),
        ("tp > 2 or config.num_hidden_layers > 30", {}, {"num_hidden_layers": 36}),
        ("tp > 8 or config.num_hidden_layers > 30", {}, {"num_hidden_layers": 36}),
        ("tp > 2 and config.num_hidden_layers > 30", {"tp": 4}, {"num_hidden_layers": 36}),
        ("tp == 1 or 8 // (tp - 1) == 2", {"tp": 4}, {}),
        ("config.num_hidden_layers % tp == 0", {"tp": 4}, {"num_hidden_layers": 36}),
        ("dp == 2 and tp == 4", {"tp": 4}, {}),
    ],
)
def test_what_is_kept_is_what_decided(condition: str, sizes: dict[str, int], config: dict[str, int]) -> None:
    text = f"{HEAD}mesh (dp=2, tp)\noption deep = false\nwhen {condition} {{\n    lm_head: skip\n}}\n{RULES}"
    decided = planlang.loads(text).resolved(LARGE, tp=4).decided
    assert (dict(decided.sizes), dict(decided.config)) == (sizes, config)


def test_requirements_decide_too_and_what_is_not_checked_does_not(tmp_path: Path) -> None:
    text = f'{HEAD}require tp in {{2, 4}} "so it is"\n{RULES}'
    assert planlang.loads(text).resolved(tp=4).decided == ir.Decided(sizes=(("tp", 4),))
    assert planlang.loads(text).resolved().decided == ir.Decided()
    with pytest.raises(planlang.PlanError):
        planlang.load(written(text, tmp_path, tp=4)).styles(tp=8)


@pytest.mark.parametrize("mesh", ["", "mesh tp\n"])
def test_a_plan_without_conditions_holds_for_every_size(mesh: str, tmp_path: Path) -> None:
    plan = planlang.load(written(HEAD + mesh + RULES, tmp_path, tp=4))
    assert "decided" not in Path(tmp_path / "x.yaml").read_text()
    assert list(plan.styles(SMALL, tp=2)) == ["model.layers.*.mlp.up_proj"]


def test_a_size_that_the_plan_gives_is_refused_like_in_the_plan(tmp_path: Path) -> None:
    plan = planlang.load(written(f"{HEAD}mesh tp=4\n{RULES}", tmp_path))
    with pytest.raises(planlang.PlanError, match="written for tp=4") as refused:
        plan.styles(tp=2)
    assert codes_of(refused) == ["mesh-size-conflict"]


def test_an_emitted_module_says_what_it_was_decided_for() -> None:
    text = planlang.compile(planlang.loads(BRANCHES), tp=4)
    assert "Its conditions were decided for tp=4: it is not for others." in text
    assert '"""The plan for what is said above, with styles of its own on every call."""' in text
    assert "decided" not in planlang.compile(planlang.loads(HEAD + RULES), tp=4)


@pytest.mark.parametrize(
    "decided", ["[]", "{sizes: [4]}", "{sizes: {tp: 0}}", "{sizes: {tp: true}}", "{config: {a: [1]}}", "{config: 3}"]
)
def test_data_that_says_it_wrongly(decided: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"schema: planlang/plan/1\nname: x\ndecided: {decided}\n")
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load(path)
    assert codes_of(refused) == ["bad-plan-data"]
