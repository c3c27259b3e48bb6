"""The walks against what is known of plans: right ones are found right, and each known mistake is found.

`truth.jsonl` is a sample of what `python -m benchmarks.truth` and `python -m benchmarks.truth.hunt` simulated: two
entries changed, entries dropped, mixtures, random plans, and plans that the walks once called right and are not.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from benchmarks.agreement import answer
from benchmarks.truth.case import Case
from benchmarks.truth.pool import Worker
from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.passes import Pass, run
from planlang.analysis.flow.setup import Setup
from planlang.layout import Partial, Replicate, Shard
from planlang.model.graph import Graph
from planlang.model.trace import trace
from planlang.model.tree import Kind
from planlang.plan.styles import Colwise, Rowwise, Sequence, Style
from tests.simulate import plans, twins

ATTENTION = "model.layers.0.self_attn"


@cache
def graph(twin: str, batch: int, length: int) -> Graph:
    return trace(twins.make(twin), twins.inputs(twin, batch=batch, length=length), batch=batch, length=length)


@cache
def kinds(twin: str) -> dict[str, Kind]:
    classes = {nn.Linear: Kind.LINEAR, nn.Embedding: Kind.EMBEDDING}
    return {name: classes.get(type(each), Kind.OTHER) for name, each in twins.make(twin).named_modules()}


def walked(twin: str, styles: dict[str, Style], ranks: int = 2, batch: int = 3, length: int = 10) -> Pass:
    applied = {name: Applied(style) for name, style in styles.items()}
    return run(Setup(graph(twin, batch, length), applied, ranks, kinds(twin)))


def base(twin: str = "qwen3", name: str = "row") -> dict[str, Style]:
    return dict(plans.expand(plans.right_plans(twin)[name], twins.module_names(twin)))


RIGHT = [(twin, name) for twin in twins.TWINS for name in plans.right_plans(twin)]


@pytest.mark.parametrize(("twin", "name"), RIGHT)
@pytest.mark.parametrize(("ranks", "batch", "length"), [(2, 3, 10), (4, 2, 1)])
def test_right_plans_are_found_right(twin: str, name: str, ranks: int, batch: int, length: int) -> None:
    found = walked(twin, base(twin, name), ranks, batch, length)
    assert [conflict.text for conflict, _ in found.conflicts] == []
    assert [wrong.kind for wrong, _ in found.wrong] == []
    assert found.right


@pytest.mark.parametrize("ranks", [2, 4])
def test_head_norms_without_a_rule_have_incomplete_gradients(ranks: int) -> None:
    styles = {name: style for name, style in base().items() if not name.endswith(("q_norm", "k_norm"))}
    found = walked("qwen3", styles, ranks)
    assert not found.conflicts
    names = {wrong.parameter.name for wrong, _ in found.wrong if wrong.parameter}
    assert names == {f"{ATTENTION}.q_norm.weight", f"{ATTENTION}.k_norm.weight"}
    assert {wrong.kind for wrong, _ in found.wrong} == {"incomplete"}


def test_a_sequence_norm_on_whole_data_has_a_doubled_gradient() -> None:
    found = walked("qwen3", base() | {"model.layers.0.input_layernorm": Sequence(local=True)})
    assert [(wrong.kind, wrong.parameter.name) for wrong, _ in found.wrong if wrong.parameter] == [
        ("doubled", "model.layers.0.input_layernorm.weight")
    ]


@pytest.mark.parametrize(
    ("module", "style", "fault"),
    [
        (f"{ATTENTION}.o_proj", Colwise(in_=Shard(-1), out=Replicate(), local=False), Fault.MIXED),
        (f"{ATTENTION}.k_proj", None, Fault.MISMATCH),
        (f"{ATTENTION}.v_proj", None, Fault.MISMATCH),
        (f"{ATTENTION}.o_proj", Rowwise(out=Partial()), Fault.PARTIAL),
        (f"{ATTENTION}.o_proj", Rowwise(out=Shard(1)), Fault.MISMATCH),
        ("lm_head", Colwise(), Fault.HEAD),
    ],
)
def test_known_mistakes_are_found(module: str, style: Style | None, fault: Fault) -> None:
    styles = base()
    if style is None:
        del styles[module]
    else:
        styles[module] = style
    assert fault in {conflict.fault for conflict, _ in walked("qwen3", styles).conflicts}


def test_packed_projections_may_not_be_cut() -> None:
    styles = base("phi3", next(iter(plans.right_plans("phi3"))))
    styles["model.layers.0.mlp.gate_up_proj"] = Colwise()
    styles["model.layers.0.mlp.down_proj"] = Rowwise()
    assert Fault.PACKED in {conflict.fault for conflict, _ in walked("phi3", styles).conflicts}


TRUTH = [json.loads(line) for line in Path(__file__).with_name("truth.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", ["hunt", "mixed", "random", "some", "two"])
def test_simulated_plans_are_called_what_they_are(kind: str) -> None:
    rows: list[dict[str, Any]] = [row for row in TRUTH if row["kind"] == kind]
    assert {row["verdict"] for row in rows} >= {"right", "crash"}
    called = {index: answer(Case.from_dict(row)) for index, row in enumerate(rows)}
    assert [rows[index] for index, got in called.items() if got.right and rows[index]["verdict"] != "right"] == []
    assert [
        (rows[index], got.why) for index, got in called.items() if not got.right and rows[index]["verdict"] == "right"
    ] == []


def test_the_sample_of_simulated_plans_is_still_true() -> None:
    worker = Worker()
    changed = [row for row in TRUTH[::20] if worker.run(Case.from_dict(row))["verdict"] != row["verdict"]]
    worker.close()
    assert changed == []
