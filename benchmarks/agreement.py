"""`python -m benchmarks.agreement OUT.jsonl`: the checker's two walks against what `python -m benchmarks.truth` found.

Prints how often each fate of a plan met each answer, by kind of plan, and every plan on which the two disagree. A
wrong plan that is called right is a bug of the checker: the exit status says whether there was one. A right plan that
is called wrong is simulated again with another length, batch or head: what makes it wrong says why it was right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.truth.case import Case, shared, style_of
from benchmarks.truth.worker import run as simulated
from planlang.analysis.flow import passes
from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.setup import Setup
from planlang.model.graph import Graph
from planlang.model.trace import trace
from planlang.model.tree import Kind
from planlang.plan.styles import Prepare, Skip

VERDICTS = ("right", "gradient", "forward", "crash")
KINDS = ("right", "one", "one_layer", "two", "mixed", "some", "random", "hunt")
BY_LENGTH = "right at length 1 alone: attention over one token does not depend on queries and keys"
BY_BATCH = "right at batch 2 alone: at batch 3 the same plan is wrong"
BY_HEAD = "right for its head alone: ids were gathered to copies of themselves, of which a classifier reads the first"
NOT_EXPLAINED = "not explained"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the checker says of a plan: right, or why not."""

    right: bool
    why: tuple[str, ...] = ()


def answer(case: Case) -> Answer:
    """The checker's answer."""
    if not case.retie and (names := _lost_ties(case)):
        return Answer(False, (f"tie of {' and '.join(names)} is lost",))
    applied = {name: Applied(style_of(text)) for name, text in case.styles.items()}
    found = passes.run(
        Setup(
            _graph(case.twin, case.layers, case.attention, case.batch, case.length),
            applied,
            case.tp,
            _kinds(case.twin, case.layers),
        )
    )
    return Answer(found.right, tuple(_reasons(found)))


def _reasons(found: passes.Pass) -> Iterator[str]:
    for conflict, _ in found.conflicts:
        yield f"{conflict.fault} at {conflict.module or 'the model'} {conflict.operator}: {conflict.text}"
    for wrong, _ in found.wrong:
        yield f"gradient {wrong.kind} at {wrong.parameter.name if wrong.parameter else wrong.module}: {wrong.got}"
    for parameter in found.unknown:
        yield f"gradient unknown of {parameter.name}"


def _lost_ties(case: Case) -> list[str]:
    """The modules that hold one parameter, where a rule places it in either of them."""
    ruled = {name for name, text in case.styles.items() if not isinstance(style_of(text), Prepare | Skip)}
    return next((names for names in _ties(case.twin) if ruled.intersection(names)), [])


@cache
def _ties(twin: str) -> list[list[str]]:
    holders: dict[int, list[str]] = {}
    for name, module in shared("twins").make(twin).named_modules():
        for parameter in module.parameters(recurse=False):
            holders.setdefault(id(parameter), []).append(name)
    return [names for names in holders.values() if len(names) > 1]


@cache
def _graph(twin: str, layers: int, attention: str, batch: int, length: int) -> Graph:
    twins = shared("twins")
    model = twins.make(twin, layers=layers, attention=attention)
    return trace(model, twins.inputs(twin, batch=batch, length=length), batch=batch, length=length)


@cache
def _kinds(twin: str, layers: int) -> Mapping[str, Kind]:
    kinds = {nn.Linear: Kind.LINEAR, nn.Embedding: Kind.EMBEDDING}
    modules = shared("twins").make(twin, layers=layers).named_modules()
    return {
        name: next((kind for cls, kind in kinds.items() if isinstance(module, cls)), Kind.OTHER)
        for name, module in modules
    }


def reason(case: Case) -> str:
    """Why a right plan is called wrong, as far as that has a name; told by what is wrong if one thing is changed."""
    changes = {
        BY_LENGTH: replace(case, length=10),
        BY_BATCH: replace(case, batch=3),
        BY_HEAD: replace(case, twin=case.twin.replace("_score", "")),
    }
    wrong = (why for why, other in changes.items() if other != case and simulated(other)["verdict"] != "right")
    return next(wrong, NOT_EXPLAINED)


def table(rows: list[tuple[str, bool]]) -> str:
    """The confusion table of pairs of a verdict and whether the checker says right."""
    counts = Counter(rows)
    lines = [f"{'truth':<10}{'called right':>14}{'called wrong':>14}"]
    lines += [f"{verdict:<10}{counts[verdict, True]:>14}{counts[verdict, False]:>14}" for verdict in VERDICTS]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("truth", type=Path, help="what `python -m benchmarks.truth` wrote")
    arguments = parser.parse_args()
    lines = arguments.truth.read_text().splitlines(keepends=True)
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("\n")]
    found: list[tuple[str, str, bool]] = []  # kind, verdict, called right
    missed: list[str] = []
    alarms: Counter[str] = Counter()
    seconds = 0.0
    for row in rows:
        case = Case.from_dict(row)
        start = time.perf_counter()
        got = answer(case)
        seconds += time.perf_counter() - start
        found.append((case.kind, row["verdict"], got.right))
        if got.right == (row["verdict"] == "right"):
            continue
        told = {**case.as_dict(), "verdict": row["verdict"], "detail": row["detail"], "checker": got.why}
        if got.right:
            missed.append(row["id"])
        else:
            told["reason"] = reason(case)
            alarms[told["reason"]] += 1
        print(json.dumps(told), flush=True)
    for kind in KINDS:
        own = [(verdict, right) for of, verdict, right in found if of == kind]
        if own:
            print(f"\n{len(own)} plans of kind {kind}\n{table(own)}")
    everything = [(verdict, right) for _, verdict, right in found]
    print(
        f"\nall {len(rows)} plans, {1000 * seconds / max(len(rows), 1):.1f} ms each with tracing\n{table(everything)}"
    )
    total = sum(verdict == "right" for verdict, _ in everything)
    print(f"\n{len(missed)} wrong plans called right: {' '.join(missed) or 'none'}")
    print(f"{alarms.total()} of {total} right plans called wrong ({100 * alarms.total() / max(total, 1):.2f} %)")
    for why, count in alarms.most_common():
        print(f"  {count} {why}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
