"""The assertion for other test suites: it says nothing of a right plan, and everything of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

import planlang
from planlang.runtime.verify.cases import cases
from planlang.testing import assert_plan_verifies

WRONG = "plan wrong for Qwen3ForCausalLM\n\nmodel.norm: sequence(local=true)\n"
QWEN3 = "Qwen/Qwen3-0.6B"


@pytest.fixture(autouse=True)
def one_circumstance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planlang.runtime.verify.cases.cases", lambda ranks: cases(ranks)[:1])


def test_a_right_plan_passes_and_its_numbers_come_back() -> None:
    found = assert_plan_verifies("qwen", QWEN3, tp=2)
    assert [(each.ranks, each.right) for each in found.results] == [(2, True)]


def test_a_wrong_plan_fails_with_what_is_found(tmp_path: Path) -> None:
    path = tmp_path / "wrong.plan"
    path.write_text(WRONG)
    with pytest.raises(AssertionError) as raised:
        assert_plan_verifies(path, QWEN3, tp=2)
    said = str(raised.value)
    assert "the plan does not verify on Qwen/Qwen3-0.6B" in said
    assert "error[PLN5007]" in said
    assert "3 | model.norm: sequence(local=true)" in said
    assert "it is 2 times too large" in said


def test_a_plan_that_cannot_be_run_fails_too() -> None:
    with pytest.raises(AssertionError, match="PLN3001"):
        assert_plan_verifies(planlang.loads("plan a for Qwen3ForCausalLM\n\n*.mlp.up_prj: colwise\n"), QWEN3, tp=2)
    with pytest.raises(AssertionError, match="PLN0009"):
        assert_plan_verifies("qwen", "Qwen/Qwen9", tp=2)
