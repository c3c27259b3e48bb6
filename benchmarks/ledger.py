"""The ledger beside `CommDebugMode`: every bundled plan on every dense Qwen of the catalog at 2, 4 and 8 ranks.

    python -m benchmarks.ledger [--only TEXT]

The ledger is that of the whole model, from the catalog's graph. Torch runs the same classes at full width on fake
tensors under a fake process group, with 2 layers and with 3: what the third adds is counted for each of the others.
Compared are kinds, counts and bytes, forward and backward apart, and how many gradients stay partial.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import planlang
from planlang.analysis.cost.ledger import Ledger, Phase, ledger
from planlang.analysis.flow.applied import setup
from planlang.analysis.flow.passes import run
from planlang.model import catalog
from planlang.model.calls import make_fake
from planlang.model.catalog import DATA, Entry
from planlang.model.pretrained import build, config_for, model_class

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "ledger"))
measured: Any = importlib.import_module("measured")

PLANS = ("qwen", "qwen_stable", "qwen_sequence")
DENSE = ("qwen2", "qwen3")
RANKS = (2, 4, 8)
BATCH, LENGTH = 2, 64
LAYERS = (2, 3)
PHASES: tuple[Phase, ...] = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class Compared:
    """One plan on one model at one number of ranks.

    Attributes:
        ours: collectives of the ledger by kind, forward and backward.
        equal: whether kinds, counts and bytes are those that ran, and as many gradients stay partial.
    """

    model: str
    cls: str
    plan: str
    ranks: int
    ours: tuple[dict[str, int], dict[str, int]]
    equal: bool


def main() -> int:
    """Prints a row for each model, class and plan, and what differs; the exit code is 1 where anything does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger")
    parser.add_argument("--only", default="", help="a part of the names of the models to compare")
    only: str = parser.parse_args().only
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    found: list[Compared] = []
    for entry in catalog.names():
        if entry.model_type in DENSE and only in entry.name:
            for cls in entry.classes:
                found += compared(entry, cls)
                _print_rows(found[-len(PLANS) * len(_ranks(entry)) :])
    equal = sum(each.equal for each in found)
    seconds = time.perf_counter() - start
    print(
        f"{equal} of {len(found)} combinations equal, in {seconds:.0f} s, at batch {BATCH}, length {LENGTH}, bfloat16"
    )
    return 0 if found and equal == len(found) else 1


def _ranks(entry: Entry) -> list[int]:
    return [ranks for ranks in RANKS if ranks in entry.tp_sizes]


def compared(entry: Entry, cls: str) -> Iterator[Compared]:
    """Every plan at every number of ranks that divides the heads."""
    for plan in PLANS:
        for ranks in _ranks(entry):
            ours = _ledger(entry, cls, plan, ranks)
            theirs = _scaled(entry, cls, plan, ranks)
            tallies = {phase: measured.tally(ours, phase) for phase in PHASES}
            partial_gradients = sum(each.count for each in ours.entries if each.phase == "deferred")
            equal = ours.complete and (*tallies.values(), partial_gradients) == theirs
            if not equal:
                print(f"{entry.name} {cls} {plan} at {ranks}: ours {tallies}, theirs {theirs}", file=sys.stderr)
            counts = tuple(measured.counts(tallies[phase]) for phase in PHASES)
            yield Compared(entry.name, cls, plan, ranks, (counts[0], counts[1]), equal)


def _ledger(entry: Entry, cls: str, plan: str, ranks: int) -> Ledger:
    compiled = planlang.load(plan).compile(catalog.tree(entry.name, cls), tp=ranks).checked()
    graph = catalog.graphs(entry.name, cls).passes["plain"].at(BATCH, LENGTH)
    return ledger(run(setup(compiled.assignments[0], graph, "tp", ranks)), "tp", width=2)


def _scaled(entry: Entry, cls: str, plan: str, ranks: int) -> tuple[Counter[Any], Counter[Any], int]:
    """What runs forward and backward, and how many gradients stay partial, for all layers of the model."""
    few, more = (_real(entry, cls, plan, ranks, layers) for layers in LAYERS)
    times = int(str(_facts(entry)["num_hidden_layers"])) - LAYERS[0]

    def scaled(before: Counter[Any], after: Counter[Any]) -> Counter[Any]:
        return Counter({key: before[key] + times * (after[key] - before[key]) for key in after})

    gradients = len(few.partial) + times * (len(more.partial) - len(few.partial))
    return scaled(few.forward, more.forward), scaled(few.backward, more.backward), gradients


def _real(entry: Entry, cls: str, plan: str, ranks: int, layers: int) -> Any:
    labels = {"num_labels": 1} if cls.endswith("Classification") else {}
    config = config_for(cls, {**_facts(entry), **labels, "num_hidden_layers": layers})
    config.pad_token_id = 0 if config.pad_token_id is None else config.pad_token_id
    config.use_cache = False
    mesh = measured.mesh_of(ranks)
    model = build(model_class(cls), config).eval()
    with FakeTensorMode(allow_non_fake_inputs=True):
        make_fake(model, gradients=True)
        inputs = {"input_ids": torch.ones((BATCH, LENGTH), dtype=torch.int64)}
        return measured.measure(model, inputs, mesh, partial(_parallelize, plan))


def _parallelize(plan: str, model: Any, mesh: Any) -> None:
    planlang.parallelize(model, mesh, plan)


def _facts(entry: Entry) -> dict[str, Any]:
    rows = json.loads((DATA / "checkpoints.json").read_text(encoding="utf-8"))["checkpoints"]
    facts: dict[str, Any] = next(row["config"] for row in rows if row["name"] == entry.name)
    return facts


def _print_rows(found: list[Compared]) -> None:
    """One row a plan: the ranks at which it was compared, and its collectives where these are the same at all."""
    for plan in PLANS:
        rows = [each for each in found if each.plan == plan]
        ranks = ",".join(str(each.ranks) for each in rows)
        verdict = "equal" if all(each.equal for each in rows) else "DIFFERENT"
        forward, backward = (_text(part) for part in rows[0].ours)
        if any(each.ours != rows[0].ours for each in rows):
            forward = backward = "by ranks"
        first = rows[0]
        print(
            f"{first.model:20} {first.cls:32} {plan:14} tp {ranks:6} {forward:36} | {backward:38} {verdict}", flush=True
        )


def _text(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"


if __name__ == "__main__":
    sys.exit(main())
