"""Calls from Python with arguments of other types, and plans in Python that hold other things than styles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import planlang

PLANS = """\
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput

print("said while it is imported")
class Sub(ColwiseParallel):
    pass
class Mute(dict):
    def items(self):
        raise RuntimeError("no items")
style = ColwiseParallel()
GOOD = {"model.layers.*.mlp.up_proj": style}
STARS = {"model.layers.**.mlp.u**": style}
BRACKETS = {"model.layers.[0]*.mlp.up_proj": style}
NONE, TEXT, SUB, KEY = {"a": None}, {"a": "colwise"}, {"a": Sub()}, {3: style}
ROOT, DOTS, QUOTE, LINE = {"": style}, {"a..b": style}, {'a"b': style}, {"a\\nb": style}
WIDE, BACKWARDS, NEGATIVE = {"a[\\x01-\\U0010ffff]": style}, {"a[z-a]": style}, {"a[!0-3]": style}
LAYOUT, FLAG = {"a": ColwiseParallel(input_layouts="x")}, {"a": ColwiseParallel(use_local_output="no")}
CLASS, LIST, NUMBER, MUTE = {"a": ColwiseParallel}, [("a", style)], 3, Mute(a=style)
def needs(x):
    return GOOD
def exits():
    raise SystemExit(0)
def raises():
    raise BaseException("any")
def recurses():
    return recurses()
"""
REFUSED = [
    "NONE",
    "TEXT",
    "SUB",
    "KEY",
    "ROOT",
    "DOTS",
    "QUOTE",
    "LINE",
    "WIDE",
    "BACKWARDS",
    "NEGATIVE",
    "LAYOUT",
    "FLAG",
    "CLASS",
    "LIST",
    "NUMBER",
    "MUTE",
    "needs",
    "exits",
    "raises",
    "recurses",
    "NOTHING",
]


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "odd_plans.py").write_text(PLANS)
    (tmp_path / "ending.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "odd_plans"
    sys.modules.pop("odd_plans", None)


def codes_of(error: pytest.ExceptionInfo[planlang.PlanError]) -> list[str]:
    return [finding.code.name for finding in error.value.findings]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plan_of_styles(plans: str, name: str) -> None:
    with pytest.raises(planlang.PlanError) as refused:
        planlang.load(f"{plans}.{name}")
    assert codes_of(refused) == ["unresolved-path"]


def test_a_module_that_ends_the_program_does_not(plans: str, capsys: pytest.CaptureFixture[str]) -> None:
    from planlang.cli.main import run

    assert run(["show", "ending.PLAN"]) == 2
    assert "`ending.PLAN` cannot be imported: SystemExit" in capsys.readouterr().err


def test_what_a_module_prints_is_no_output_of_ours(plans: str, capsys: pytest.CaptureFixture[str]) -> None:
    from planlang.cli.main import run

    assert run(["compile", f"{plans}.GOOD", "--model", "Qwen/Qwen3-0.6B"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith('"""')
    assert "said while" in err


def test_without_a_model_it_is_refused_and_not_empty(plans: str, tmp_path: Path) -> None:
    data = tmp_path / "data.yaml"
    data.write_text(planlang.compile(f"{plans}.GOOD", target="yaml", model="Qwen/Qwen3-0.6B"))
    for name in (f"{plans}.GOOD", data):
        plan = planlang.load(name)
        with pytest.raises(planlang.PlanError, match="names no model class") as refused:
            plan.styles()
        assert codes_of(refused) == ["unknown-class"]
        assert list(plan.styles("Qwen/Qwen3-0.6B")) == ["model.layers.*.mlp.up_proj"]


def test_several_stars_are_one(plans: str, tmp_path: Path) -> None:
    styles = planlang.load(f"{plans}.STARS").styles("Qwen/Qwen3-0.6B")
    assert list(styles) == ["model.layers.*.mlp.up_proj"]
    data = tmp_path / "data.yaml"
    data.write_text(planlang.compile(f"{plans}.STARS", target="yaml", model="Qwen/Qwen3-0.6B"))
    assert list(planlang.load(data).styles("Qwen/Qwen3-0.6B")) == list(styles)


def test_options_that_there_are_not(plans: str, tmp_path: Path) -> None:
    data = tmp_path / "data.yaml"
    data.write_text(planlang.compile("qwen", target="yaml"))
    for name in (f"{plans}.GOOD", data):
        plan = planlang.load(name)
        calls: tuple[Callable[[], Any], ...] = (
            lambda name=name: planlang.load(name, deep=True),  # type: ignore[misc]
            lambda plan=plan: planlang.compile(plan, model="Qwen/Qwen3-0.6B", deep=True),  # type: ignore[misc]
        )
        for call in calls:
            with pytest.raises(planlang.PlanError) as refused:
                call()
            assert codes_of(refused) == ["unknown-option"]


def test_a_size_of_an_axis_that_there_is_not() -> None:
    plan = planlang.loads("plan x for Qwen3ForCausalLM\nmesh dp\n*.mlp.up_proj: colwise(axis=dp)\n")
    with pytest.raises(planlang.PlanError) as refused:
        plan.styles(tp=4)
    assert codes_of(refused) == ["unknown-axis"]
    assert plan.styles()


ODD: Any = object()


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: planlang.load(ODD), "a plan is a path"),
        (lambda: planlang.load(b"qwen"), "not 'bytes'"),  # type: ignore[arg-type]
        (lambda: planlang.load("qwen", deep=ODD), "the option 'deep'"),
        (lambda: planlang.loads(ODD), "a str"),
        (lambda: planlang.load_config(ODD, "a"), "a path or a mapping"),
        (lambda: planlang.load_config({"a": "qwen"}, ODD), "the key"),
        (lambda: planlang.load_config({"a": "qwen"}, "a", beside=ODD), "`beside`"),
        (lambda: planlang.compile(ODD), "a plan is a path"),
        (lambda: planlang.compile("qwen", model=ODD), "the model is 'object'"),
        (lambda: planlang.compile("qwen", tp=ODD), "mesh axis 'tp'"),
        (lambda: planlang.compile("qwen", tp=True), "mesh axis 'tp'"),
        (lambda: planlang.parallelize(ODD, ODD, "qwen"), "an `nn.Module`"),
        (lambda: planlang.parallelize(nn.Linear(1, 1), ODD, "qwen"), "a `DeviceMesh`"),
    ],
)
def test_other_types_are_type_errors_that_say_what_is_wanted(call: Callable[[], Any], wanted: str) -> None:
    with pytest.raises(TypeError) as refused:
        call()
    assert wanted in str(refused.value)


def test_names_that_torch_would_read_as_patterns() -> None:
    from fnmatch import fnmatch

    model = nn.Module()
    names = ("a[0]", "b*", "c?", 'd"', "e\nf", "bc", "cc", "a0", "g\u202e", "h\\")
    for name in names:
        model.add_module(name, nn.Linear(4, 4))
    plan = planlang.loads("plan x for Module\n* is Linear: colwise\n")
    styles = plan.styles(model)
    assert len(styles) == len(names)
    for name, key in zip(names, styles, strict=True):
        assert [each for each in names if fnmatch(each, key)] == [name]
    module: dict[str, Any] = {"__name__": "emitted"}
    text = planlang.compile(plan, model=model)
    assert all(char.isprintable() or char == "\n" for char in text)
    exec(compile(text, "emitted.py", "exec"), module)
    assert list(module["x"]()) == list(styles)
