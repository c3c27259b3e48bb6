"""`planlang.load` and its kin: every way to name a plan, and what they refuse."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("name", ["qwen", "qwen_stable", "qwen_sequence", "qwen_invariant"])
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


@pytest.mark.parametrize(
    ("line", "options", "wanted"),
    [
        ("lm_head: colwise(locl=false)", {}, ["unknown-argument"]),
        ("lm_head: colwise(local=3)", {}, ["bad-argument"]),
        ("lm_head: colwize", {}, ["unknown-style"]),
        ("lm_head: colwise(axis=dp)", {}, ["unknown-axis"]),
        ("lm_head: colwise", {"hed": True}, ["unknown-option"]),
        ("lm_head: colwise", {"deep": 3}, ["bad-option-value"]),
        ("when deeep {\n    lm_head: colwise\n}", {}, ["unknown-name"]),
        ('require deep "so it is"', {}, ["requirement-failed"]),
        ("when tp > 2 {\n    lm_head: colwise(locl=false)\n}", {}, ["unknown-argument"]),
    ],
)
def test_what_is_wrong_for_every_model_is_raised_at_once(
    line: str, options: dict[str, Any], wanted: list[str], tmp_path: Path
) -> None:
    text = f"plan x for Qwen3ForCausalLM\noption deep = false\n{line}\n"
    path = tmp_path / "x.plan"
    path.write_text(text)
    for read in (lambda: planlang.loads(text, **options), lambda: planlang.load(path, **options)):
        with pytest.raises(planlang.PlanError) as refused:
            read()
        assert codes_of(refused) == wanted


@pytest.mark.parametrize(
    "lines",
    [
        'require tp in {2, 4} "so it is"\nlm_head: colwise',
        "when tp > 2 {\n    let out = rowwise\n} else {\n    let out = colwise\n}\n*.o_proj: out",
        "when config.num_hidden_layers > 3 {\n    when tp > 2 {\n        let out = rowwise\n    }\n}\n*.o_proj: out",
        "let out = rowwise\nwhen tp > 2 {\n    *.o_proj: out(local=false)\n}",
        "*.o_prj: rowwise",
        "model.layers.{-2..-1}.mlp.up_proj: colwise",
    ],
)
def test_what_needs_a_model_or_a_size_is_left_for_later(lines: str) -> None:
    plan = planlang.loads(f"plan x for Qwen3ForCausalLM\n{lines}\n")
    if "require" not in lines:
        with pytest.raises(planlang.PlanError) as refused:
            plan.styles()
        assert len(refused.value.findings) == 1, "what follows from it is no mistake of its own"


def test_compiling_finds_all_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.plan"
    path.write_text("plan x for Qwen3ForCausalLM\nlm_head: colwise(locl=false)\n*.o_prj: rowwise\n")
    with pytest.raises(planlang.PlanError) as refused:
        planlang.compile(path)
    assert codes_of(refused) == ["unknown-argument", "unmatched-rule"]


class Container(Mapping[str, Any]):
    """A configuration that is no dict, as OmegaConf's is none."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def __getitem__(self, key: str) -> Any:
        value = self.content[key]
        return Container(value) if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


@pytest.mark.parametrize("container", [dict, Container])
def test_a_configuration_that_was_read_already(
    container: Any, plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = container({"policy": {"dtensor_cfg": {"custom_parallel_plan": "small.plan", "tp": 4}, "more": [1]}})
    key = "policy.dtensor_cfg.custom_parallel_plan"
    expected = planlang.load(plan_file, heads=False).resolved()
    for beside in (plan_file.parent, str(plan_file.parent)):
        assert planlang.load_config(config, key, beside=beside, heads=False).resolved() == expected
    with pytest.raises(planlang.PlanError, match="cannot be read"):
        planlang.load_config(config, key)
    monkeypatch.chdir(plan_file.parent)
    assert planlang.load_config(config, key, heads=False).resolved() == expected
    with pytest.raises(planlang.PlanError, match="the configuration has no key `polcy`"):
        planlang.load_config(config, "polcy.more")
    with pytest.raises(planlang.PlanError, match="is a mapping, not the path"):
        planlang.load_config(config, "policy.dtensor_cfg")
    with pytest.raises(planlang.PlanError, match="is a list, not the path"):
        planlang.load_config(config, "policy.more")


def test_a_path_in_a_configuration_file_may_be_relative_to_another_folder(plan_file: Path) -> None:
    config = plan_file.parent / "configs" / "grpo.yaml"
    config.parent.mkdir()
    config.write_text("plan: small.plan\n")
    with pytest.raises(planlang.PlanError, match="cannot be read"):
        planlang.load_config(config, "plan")
    assert planlang.load_config(config, "plan", beside=plan_file.parent).resolved().name == "small"


@pytest.mark.parametrize("name", ["my_plan.py", "plans/my_plan.py", "./my_plan.py"])
def test_a_file_of_python_is_not_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_plan.py").write_text("raise SystemExit('it was run')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load(name)
    assert codes_of(refused) == ["unresolved-path"]
    assert "`my_plan.NAME`" in refused.value.findings[0].help


def test_a_text_is_not_looked_for_on_disk() -> None:
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load(PLAN)
    assert codes_of(refused) == ["unknown-plan"]
    assert "planlang.loads" in refused.value.findings[0].help
    assert "q_proj" not in str(refused.value)


def test_a_file_that_is_not_there_has_near_names(plan_file: Path) -> None:
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load(plan_file.with_name("smal.plan"))
    assert f"did you mean `{plan_file}`?" == refused.value.findings[0].help


def test_a_plan_prints_short(plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert repr(planlang.load("small.plan")) == "<Plan small for Qwen3ForCausalLM, small.plan>"
    assert str(planlang.loads(PLAN)) == "<Plan small for Qwen3ForCausalLM, <string>>"
    Path("small.yaml").write_text(planlang.compile("small.plan", target="yaml"))
    assert repr(planlang.load("small.yaml")) == "<Plan small for Qwen3ForCausalLM, small.yaml>"
    assert len(repr(planlang.load("qwen"))) < 150


def small_config(**settings: Any) -> Any:
    from transformers import Qwen3Config

    small = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "architectures": ["Qwen3ForCausalLM"],
    }  # fmt: skip
    return Qwen3Config(**small | settings)


def test_a_model_in_hand_is_called_this_model() -> None:
    from transformers import Qwen3ForCausalLM

    config = small_config()
    plan = planlang.loads("plan x for Qwen3ForCausalLM\n*.q_prj: colwise\n")
    other = planlang.loads("plan x for LlamaForCausalLM\nscore: colwise\n")
    for model in (config, Qwen3ForCausalLM(config)):
        with pytest.raises(planlang.PlanError, match="no module of this model, a `Qwen3ForCausalLM`"):
            plan.styles(model)
        with pytest.raises(planlang.PlanError, match="no rule reaches this model, a `Qwen3ForCausalLM`: the plan is"):
            other.styles(model)
        assert "\nFor Qwen3ForCausalLM.\n" in planlang.compile("qwen", model=model)


def test_one_head_is_singular() -> None:
    with pytest.raises(planlang.PlanError, match="does not divide the one key and value head of"):
        planlang.load("qwen").styles(small_config(num_key_value_heads=1), tp=2)


def test_a_published_name_that_the_catalog_lacks_needs_its_file() -> None:
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load("qwen").styles("meta-llama/Llama-3.1-8B")
    (finding,) = refused.value.findings
    assert "not in the catalog" in finding.message
    assert "hf download meta-llama/Llama-3.1-8B config.json" in finding.help


def test_a_bundled_plan_for_another_class_is_to_be_extended() -> None:
    found = planlang.load("qwen").compile("Qwen/Qwen3-30B-A3B").findings
    (finding,) = (each for each in found if each.code is codes.OTHER_CLASS)
    assert 'extends "qwen"' in finding.help
    own = planlang.loads("plan x for Qwen3ForCausalLM\n*.q_proj: colwise\n").compile("Qwen/Qwen3-30B-A3B").findings
    assert "to the `plan` line" in own[0].help
