"""`planlang.load` and its kin: every way to name a plan, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import planlang
from planlang.diagnostics import codes
from planlang.plan.styles import Colwise, Rowwise

PLAN = """\
plan small for Qwen3ForCausalLM
option heads = true
mesh tp
*.self_attn.{q,k,v}_proj: colwise
*.self_attn.o_proj: rowwise
when heads {
    *.self_attn.{q,k}_norm: sequence(dim=2, local=true)
}
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.plan"
    path.write_text(PLAN)
    return path


def codes_of(error: pytest.ExceptionInfo[planlang.PlanError]) -> list[str]:
    return [finding.code.name for finding in error.value.findings]


def test_a_path(plan_file: Path) -> None:
    plan = planlang.load(plan_file)
    assert list(plan.styles()) == [
        "model.layers.*.self_attn.q_proj",
        "model.layers.*.self_attn.k_proj",
        "model.layers.*.self_attn.v_proj",
        "model.layers.*.self_attn.o_proj",
        "model.layers.*.self_attn.q_norm",
        "model.layers.*.self_attn.k_norm",
    ]
    assert planlang.load(str(plan_file)).styles().keys() == plan.styles().keys()


def test_options_are_set_by_keyword(plan_file: Path) -> None:
    assert not any("norm" in key for key in planlang.load(plan_file, heads=False).styles())


@pytest.mark.parametrize("target", ["yaml", "json"])
def test_data_loads_back_to_an_equal_plan(plan_file: Path, target: str) -> None:
    written = plan_file.with_suffix(f".{target}")
    written.write_text(planlang.compile(plan_file, target=target))
    original, again = planlang.load(plan_file), planlang.load(written)
    assert again.resolved() == original.resolved()
    assert repr(again.styles()) == repr(original.styles())
    assert planlang.compile(written, target=target) == written.read_text()


@pytest.mark.parametrize("name", ["qwen", "qwen_stable", "qwen_sequence"])
@pytest.mark.parametrize("target", ["yaml", "json"])
def test_bundled_plans_survive_as_data(tmp_path: Path, name: str, target: str) -> None:
    written = tmp_path / f"plan.{target}"
    written.write_text(planlang.compile(name, target=target))
    assert planlang.load(written).resolved() == planlang.load(name).resolved()


def test_a_dotted_path_to_a_dict_and_to_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_plans.py").write_text(
        "from torch.distributed.tensor import Replicate, Shard\n"
        "from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel\n"
        "PLAN = {'model.layers.*.mlp.up_proj': ColwiseParallel(use_local_output=False),\n"
        "        'model.layers.[0-2].self_attn.o_proj': RowwiseParallel(output_layouts=Shard(1))}\n"
        "def made():\n    return PLAN\n"
        "ODD = {'a.?': ColwiseParallel(), 'b': object()}\nNUMBER = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plan = planlang.load("their_plans.PLAN").resolved("Qwen/Qwen3-8B")
    assert [type(rule.style) for rule in plan.rules] == [Colwise, Rowwise]
    styles = planlang.load("their_plans.made").styles("Qwen/Qwen3-8B")
    assert [key for key in styles if "o_proj" in key] == [f"model.layers.{n}.self_attn.o_proj" for n in range(3)]
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load("their_plans.ODD")
    assert codes_of(refused) == ["unresolved-path"] * 2
    for path in ("their_plans.NUMBER", "their_plans.NOTHING", "no_such_package.made"):
        with pytest.raises(planlang.PlanError) as refused:
            planlang.load(path)
        assert codes_of(refused) == ["unresolved-path"]
    sys.modules.pop("their_plans")


def test_a_name_that_is_nothing() -> None:
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load("qwen_stabel")
    assert codes_of(refused) == ["unknown-plan"]
    assert "`qwen_stable`" in refused.value.findings[0].help
    assert "PLN0005" in str(refused.value)


def test_a_configuration(plan_file: Path) -> None:
    config = plan_file.parent / "grpo.yaml"
    config.write_text("policy:\n  dtensor_cfg:\n    _v2: true\n    custom_parallel_plan: small.plan\n")
    plan = planlang.load_config(config, "policy.dtensor_cfg.custom_parallel_plan")
    assert plan.resolved() == planlang.load(plan_file).resolved()


@pytest.mark.parametrize(
    ("text", "key", "wanted"),
    [
        ("policy: {plan: small.plan}", "policy.paln", "did you mean `plan`"),
        ("policy: {plan: [1]}", "policy.plan", "a list"),
        ("policy: {plan: }", "policy.plan", "empty"),
        ("policy: {plan: nowhere.plan}", "policy.plan", "cannot be read"),
        ("policy: [unclosed", "policy.plan", "no YAML"),
        ("- a\n- b\n", "policy", "no key `policy`"),
    ],
)
def test_a_configuration_that_names_no_plan(plan_file: Path, text: str, key: str, wanted: str) -> None:
    config = plan_file.parent / "broken.yaml"
    config.write_text(text)
    with pytest.raises(planlang.PlanError, match=wanted):
        planlang.load_config(config, key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "schema: planlang/plan/2",
        "schema: planlang/plan/1\nname: 3",
        "schema: planlang/plan/1\nname: x\nentries: [{rule: 'a..b', style: {name: colwise}}]",
        "schema: planlang/plan/1\nname: x\nentries: [{rule: a, style: {name: colwize}}]",
        "schema: planlang/plan/1\nname: x\nentries: [{rule: a, style: {name: colwise, in: shard}}]",
        "schema: planlang/plan/1\nname: x\nentries: [{rule: a, style: {name: 'colwise(in=replicate) b'}}]",
        "schema: planlang/plan/1\nname: x\nmesh: [{axis: tp, size: -1}]",
        "schema: planlang/plan/1\nname: x\nentries: [{expect: a, in: [shard]}]",
        "schema: planlang/plan/1\nname: x\nentries: [7]",
        "a: &a [*a]",
        "{" * 5000,
    ],
)
def test_data_that_is_no_plan(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load(path)
    assert codes_of(refused) == [codes.BAD_PLAN_DATA.name]


def test_mistakes_are_raised_together() -> None:
    with pytest.raises(planlang.PlanError) as refused:
        planlang.loads("plan x for Qwen3ForCausalLM\nmseh tp\nlm_head colwise\n")
    assert codes_of(refused) == ["unknown-statement", "unexpected-text"]


def test_a_model_may_be_a_name_a_configuration_or_a_module() -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, architectures=["Qwen3ForCausalLM"],
    )  # fmt: skip
    plan = planlang.load("qwen")
    expected = repr(plan.styles("Qwen/Qwen3-8B"))
    assert repr(plan.styles(config)) == expected
    assert repr(plan.styles(Qwen3ForCausalLM(config))) == expected
    with pytest.raises(planlang.PlanError, match="does not divide the 2 key and value heads"):
        plan.styles(config, tp=4)


def test_styles_are_new_objects_every_time() -> None:
    plan = planlang.load("qwen_stable")
    first, second = plan.styles(), plan.styles()
    assert not {id(style) for style in first.values()} & {id(style) for style in second.values()}
    assert len({id(style) for style in first.values()}) == len(first)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('plan x for Qwen3ForCausalLM\nextends "\0.plan"\n', "unreadable-file"),
        ('plan x for Qwen3ForCausalLM\nextends "\ud800.plan"\n', "unreadable-file"),
        ("#" * (2**20 + 1), "file-too-large"),
    ],
)
def test_texts_that_no_file_would_hold(text: str, code: str) -> None:
    with pytest.raises(planlang.PlanError) as refused:
        planlang.loads(text).compile().checked()
    assert codes_of(refused) == [code]
