"""`python -m benchmarks.truth.hunt OUT.jsonl`: looks for wrong plans that the checker calls right.

Draws right plans with entries of any layout at all, more than anyone would write, and simulates those that the checker
calls right. Prints each that is not; the exit status says whether there was one. OUT.jsonl has what was simulated, as
`python -m benchmarks.truth` writes it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from benchmarks.agreement import answer
from benchmarks.truth.case import Case, shared
from benchmarks.truth.pool import Worker
from benchmarks.truth.sample import TWINS
from planlang.layout import Conversion, Layout, Partial, Replicate, Shard
from planlang.plan.spell import style_text
from planlang.plan.styles import Colwise, Prepare, Replicated, Rowwise, Sequence, Style

T = TypeVar("T")
LAYOUTS: dict[Layout, int] = {Replicate(): 6, Shard(-1): 4, Shard(0): 2, Shard(1): 3, Shard(2): 1, Partial(): 1}
SHAPES = ((3, 10), (3, 10), (2, 10), (3, 1), (2, 1), (4, 8), (4, 10), (5, 7))  # batch and length
CHANGES = (1, 2, 2, 3, 3, 4, 6)  # entries that are changed


def _choice(shares: dict[T, int], draw: random.Random) -> T:
    return draw.choices(list(shares), list(shares.values()))[0]


def _layout(draw: random.Random) -> Layout:
    return _choice(LAYOUTS, draw)


def _conversion(draw: random.Random) -> Conversion:
    return Conversion(_layout(draw), _layout(draw))


def _style(name: str, cls: str, draw: random.Random) -> Style:
    """Any style that torch takes for a module."""
    if draw.random() < 0.1 and not name.endswith("self_attn"):
        return Replicated(grad=draw.choice(("sum", "none")))
    if cls == "Linear" or cls.endswith("Embedding"):
        local = draw.random() < 0.6
        if draw.random() < 0.15:
            return Sequence(dim=draw.choice((0, 1, 2)), local=local)
        kind = draw.choice((Colwise, Rowwise))
        made = kind()
        in_ = _layout(draw) if draw.random() < 0.7 else made.in_
        return kind(in_=in_, out=_layout(draw) if draw.random() < 0.7 else made.out, local=local)
    if cls.endswith("Norm"):
        return Sequence(dim=draw.choice((0, 1, 1, 2, 2, 3)), local=draw.random() < 0.5)
    there = _conversion(draw) if draw.random() < 0.8 else None
    back = _conversion(draw) if there is None or draw.random() < 0.35 else None
    attention = name.endswith("self_attn")
    return Prepare(
        inputs=(there,) if there and not attention else (),
        keywords=(("hidden_states", there),) if there and attention else (),
        outputs=() if back is None else (back, None) if attention else (back,),
        local_in=there is not None and draw.random() < 0.4,
        local_out=back is None or draw.random() < 0.5,
    )


def drawn(draw: random.Random) -> Case:
    """A case of any plan."""
    plans, twins = shared("plans"), shared("twins")
    twin, layers = _choice(TWINS, draw), 2 if draw.random() < 0.08 else 1
    classes = twins.module_names(twin, layers)
    base, plan = any_plan(twin, classes, draw)
    styles = plans.expand(plan, classes)
    batch, length = draw.choice(SHAPES)
    return Case(
        twin=twin,
        layers=layers,
        attention="eager" if draw.random() < 0.1 else "sdpa",
        tp=draw.choice((2, 2, 4)),
        batch=batch,
        length=length,
        styles={name: style_text(styles[name]) for name in sorted(styles)},
        kind="hunt",
        edit=base,
    )


def any_plan(twin: str, classes: Mapping[str, str], draw: random.Random) -> tuple[str, dict[str, Style]]:
    """The name of a right plan, and that plan with some entries dropped, and some replaced or added."""
    edits, plans = shared("edits"), shared("plans")
    base = draw.choice(sorted(plans.right_plans(twin)))
    plan = dict(plans.right_plans(twin)[base])
    if draw.random() < 0.25:
        plan = {key: style for key, style in plan.items() if draw.random() < 0.7}
    sites = edits.sites(classes)
    for key in draw.sample(sites, min(draw.choice(CHANGES), len(sites))):
        name = next(iter(plans.expand({key: Colwise()}, classes)))
        plan[key] = _style(name, classes[name], draw)
    return base, plan


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth.hunt", description=__doc__)
    parser.add_argument("out", type=Path, help="JSON lines, one a plan that the checker calls right")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw, worker, start = random.Random(arguments.seed), Worker(), time.monotonic()
    seen: set[str] = set()
    verdicts: Counter[str] = Counter()
    with arguments.out.open("a") as file:
        while time.monotonic() - start < arguments.seconds:
            case = drawn(draw)
            if case.id in seen:
                continue
            seen.add(case.id)
            if not answer(case).right:
                continue
            found = worker.run(case)
            verdict = found.pop("verdict")
            verdicts[verdict] += 1
            line = json.dumps({**case.as_dict(), "verdict": verdict, "detail": found})
            file.write(line + "\n")
            file.flush()
            if verdict != "right":
                print(line, flush=True)
    worker.close()
    print(f"{len(seen)} plans drawn, {verdicts.total()} called right: {dict(verdicts)}")
    sys.exit(verdicts.total() > verdicts["right"])


if __name__ == "__main__":
    main()
