"""Random plans on random models, run and checked: what `check` finds clean is right, and what fails it says and places.

`python -m benchmarks.property` asks the same of thousands of plans and of more models.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

import pytest

from benchmarks.property.__main__ import agrees, fate, placed, said_of
from benchmarks.property.drawn import EDITS, Drawn, draw_plans
from benchmarks.property.run import outcome
from benchmarks.truth.pool import Worker
from planlang.analysis.flow import forward
from planlang.analysis.flow.operators import Refusal, Rule, Run, rule_of
from planlang.analysis.flow.operators.base import REPLICATE
from planlang.layout import Layout

TWINS = ("qwen3", "gemma3")  # capturing a model takes longer than a dozen plans
SEED, COUNT = 1, 51


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """What became of each plan, as `benchmarks.property.run` writes it."""
    wanted = (each for each in draw_plans(SEED) if each.twin in TWINS and each.layers == 1)
    worker = Worker()
    found = [{"id": each.id, **asdict(each), **outcome(each, worker)} for each in islice(wanted, COUNT)]
    worker.close()
    return found


@pytest.fixture(scope="module")
def said(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What `check` says of each."""
    return [said_of(row, places=bool(Drawn.from_dict(row).edited)) for row in rows]


def test_the_plans_are_of_all_kinds(rows: list[dict[str, Any]]) -> None:
    assert {row["verdict"] for row in rows} == {"right", "gradient", "forward", "crash"}
    assert {row["kind"] for row in rows} > set(EDITS) - {"one_layer"}


def test_what_is_said_is_so(rows: list[dict[str, Any]], said: list[dict[str, Any]]) -> None:
    told = zip(rows, said, strict=True)
    assert [(row, found) for row, found in told if not agrees(fate(row), found["verdict"])] == []


def test_errors_stand_at_a_rule_that_is_responsible(rows: list[dict[str, Any]], said: list[dict[str, Any]]) -> None:
    told = [(Drawn.from_dict(row), found) for row, found in zip(rows, said, strict=True) if row["verdict"] != "right"]
    errors = [(drawn, found) for drawn, found in told if drawn.edited and found["verdict"] == "error"]
    assert len(errors) > COUNT / 4
    assert [(drawn.edit, found["texts"]) for drawn, found in errors if placed(drawn, found) == "elsewhere"] == []


def test_rules_that_refuse_nothing_are_noticed(rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(name: str) -> Rule | None:
        rule = rule_of(name)
        return None if rule is None else partial(_never_refusing, rule)

    monkeypatch.setattr(forward, "rule_of", lenient)
    said = [(fate(row), said_of(row, places=False)["verdict"]) for row in rows]
    assert [is_ for is_, verdict in said if verdict == "clean" and is_ != "right"] != []


def _never_refusing(rule: Rule, run: Run) -> tuple[Layout, ...]:
    try:
        return rule(run)
    except Refusal:
        return tuple(REPLICATE for _ in run.outs)
