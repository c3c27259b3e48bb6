"""Right plans with one entry changed, dropped or added: right or not, walks and ranks must say the same."""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch
import twins
from edits import any_edit

from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.forward import Setup
from planlang.analysis.flow.passes import run
from planlang.model.trace import trace
from planlang.model.tree import Kind
from planlang.runtime.simulate import simulate, truth
from plans import expand

TWIN, SEEDS, RANKS = "qwen3", range(12), 2


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_entry(seed: int) -> None:
    classes = twins.module_names(TWIN)
    edit, plan = any_edit(TWIN, classes, "one", random.Random(seed))
    styles = expand(plan, classes)
    inputs, make = twins.inputs(TWIN), partial(twins.make, TWIN)
    kinds = {
        name: {"Linear": Kind.LINEAR, "Embedding": Kind.EMBEDDING}.get(cls, Kind.OTHER) for name, cls in classes.items()
    }
    graph = trace(make(), inputs, batch=3, length=twins.LENGTH)
    walked = run(Setup(graph, {name: Applied(style) for name, style in styles.items()}, RANKS, kinds))
    found = simulate(make, styles, RANKS, inputs, right=truth(make, inputs))
    assert walked.right == (found.verdict == "right"), (edit, found)
