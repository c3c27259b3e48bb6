"""The ledger beside `CommDebugMode`: every bundled plan on every dense Qwen of the catalog at 2, 4 and 8 ranks.

    python -m benchmarks.ledger [--only TEXT]

The ledger is that of the whole model, from the catalog's graph. Torch runs the same classes at full width on fake
tensors under a fake process group, with 2 layers and with 3: what the third adds is counted for each of the others.
Compared are kinds, counts and bytes, forward and backward apart, and how many gradients stay partial. Last, what the
invariant plan moves beside the row-parallel one: bytes that a rank sends where collectives run as rings.
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
from planlang.analysis.cost.bytes import ring_bytes
from planlang.analysis.cost.ledger import Ledger, Phase, ledger
from planlang.analysis.flow.applied import setup
from planlang.analysis.flow.passes import run
from planlang.model import catalog
from planlang.model.calls import make_fake
from planlang.model.catalog import DATA, Entry
from planlang.model.pretrained import build, config_for, model_class

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "ledger"))
measured: Any = importlib.import_module("measured")

PLANS = ("qwen", "qwen_stable", "qwen_sequence", "qwen_invariant")
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
        moved: bytes that a rank sends in what ran, forward and backward, and for gradients that were left partial.
        equal: whether kinds, counts and bytes are those that ran, and as many gradients stay partial.
    """

    model: str
    cls: str
    plan: str
    ranks: int
    ours: tuple[dict[str, int], dict[str, int]]
    moved: tuple[int, int, int]
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
    _print_ratios(found)
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
            sent = [_sent(tallied, ranks) for tallied in theirs[:2]]
            later = sum(each.moved for each in ours.totals("deferred").values())
            yield Compared(entry.name, cls, plan, ranks, (counts[0], counts[1]), (sent[0], sent[1], later), equal)


def _sent(tallied: Counter[Any], ranks: int) -> int:
    return sum(count * ring_bytes(kind, payload, ranks) for (kind, payload), count in tallied.items())


def _options(entry: Entry, plan: str) -> dict[str, Any]:
    """Of `qwen_invariant`: as many blocks as the key and value heads allow, and no more than 8."""
    if plan != "qwen_invariant":
        return {}
    heads = int(str(_facts(entry)["num_key_value_heads"]))
    return {"blocks": min(heads & -heads, 8)}


def _ledger(entry: Entry, cls: str, plan: str, ranks: int) -> Ledger:
    compiled = planlang.load(plan, **_options(entry, plan)).compile(catalog.tree(entry.name, cls), tp=ranks).checked()
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
        return measured.measure(model, inputs, mesh, partial(_parallelize, plan, _options(entry, plan)))


def _parallelize(plan: str, options: dict[str, Any], model: Any, mesh: Any) -> None:
    planlang.parallelize(model, mesh, plan, **options)


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


def _print_ratios(found: list[Compared]) -> None:
    """The bytes of the invariant plan as shares of those of the row-parallel plan: least and most of all models."""
    plain, ours = ({_case(each): each.moved for each in found if each.plan == plan} for plan in (PLANS[0], PLANS[-1]))
    shares = [
        (each[0] / plain[case][0], each[1] / plain[case][1], sum(each[1:]) / sum(plain[case][1:]))
        for case, each in ours.items()
    ]
    what = ("forward", "backward", "backward and gradients left partial")
    for name, column in zip(what, zip(*shares, strict=True), strict=False):
        print(f"{PLANS[-1]} moves {min(column):.6f} to {max(column):.6f} of the bytes of {PLANS[0]}: {name}")


def _case(each: Compared) -> tuple[str, str, int]:
    return each.model, each.cls, each.ranks


def _text(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"


if __name__ == "__main__":
    sys.exit(main())
