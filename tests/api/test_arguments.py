"""What is no plan, no model or no size is refused by its name, and plans in Python are read with care."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import planlang
from planlang.cli.main import run

ANY: Any = planlang


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ANY.load(None), "NoneType"),
        (lambda: ANY.load(3), "int"),
        (lambda: ANY.loads(b"plan a for B"), "bytes"),
        (lambda: ANY.load_config(3, "a"), "int"),
        (lambda: ANY.load("qwen").styles(3.5), "float"),
        (lambda: ANY.compile("qwen", model=3), "int"),
        (lambda: ANY.load("qwen").compile(tp="4"), "'4'"),
        (lambda: ANY.parallelize(1, 2, "qwen"), "nn.Module"),
    ],
)
def test_arguments_of_the_wrong_type_are_named(call: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


MODULE = """
import sys
EMPTY = {}
NONE = {"lm_head": None}
WORD = {"lm_head": "colwise"}
NUMBER = {3: None}
LIST = [1]
def leave():
    sys.exit(0)
def fail():
    raise ValueError("no")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "odd_plans.py").write_text(MODULE)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "odd_plans"


@pytest.mark.parametrize("name", ["NONE", "WORD", "NUMBER", "LIST", "leave", "fail", "ABSENT"])
def test_plans_in_python_that_are_none_are_findings(module: str, name: str) -> None:
    with pytest.raises(planlang.PlanError) as caught:
        planlang.load(f"{module}.{name}")
    assert [finding.code.number for finding in caught.value.findings] == ["PLN0012"]


def test_a_module_that_ends_the_process_does_not(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert module
    assert run(["show", "leaving.plan_of_mine", "--model", "Qwen/Qwen3-0.6B"]) == 2
    assert "SystemExit" in capsys.readouterr().err


def test_a_plan_in_python_without_a_rule_is_said_to_change_nothing(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["compile", f"{module}.EMPTY", "--model", "Qwen/Qwen3-0.6B"])
    assert "PLN3013" in capsys.readouterr().err


def test_options_are_not_dropped_for_a_plan_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", "planlang.plans.qwen_stable", "-D", "gather_head=true"]) != 0
    assert "gather_head" in capsys.readouterr().err
