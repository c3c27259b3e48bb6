"""`python -m benchmarks.property.smallest RUNS.jsonl OUT.jsonl`: the smallest part of wrong plans that still fails so.

For plans in which no entries are known to have been changed. Every part is simulated, so it takes seconds a plan.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.property.drawn import Drawn
from benchmarks.truth.__main__ import known
from benchmarks.truth.case import Case
from benchmarks.truth.pool import Worker
from planlang.runtime.verify.smallest import smallest


def smallest_part(drawn: Drawn, row: dict[str, Any], worker: Worker) -> tuple[str, ...]:
    """The patterns of a few entries that fail by themselves as the whole plan does.

    Args:
        drawn: a wrong plan.
        row: what `benchmarks.property.run` wrote of it.
        worker: simulates.
    """
    case = Case.from_dict({**row["circumstance"], "styles": {}})
    sign = _sign(row["verdict"], row["detail"])

    def fails(some: Sequence[str]) -> bool:
        part = replace(drawn, plan={key: text for key, text in drawn.plan.items() if key in some})
        found = worker.run(replace(case, styles=part.styles()))
        return _sign(found.pop("verdict"), found) == sign

    return smallest(list(drawn.plan), fails)


def _sign(verdict: str, detail: dict[str, Any]) -> object:
    """What makes two failures one, as `planlang verify` has it."""
    if verdict == "crash" and "crash" in detail:
        crash = detail["crash"]
        return (verdict, crash["stage"], crash["exception"], crash.get("module", ""))
    wrong = detail.get("gradients", ()) if verdict == "gradient" else ()
    return (verdict, frozenset(each["name"] for each in wrong))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.property.smallest", description=__doc__)
    parser.add_argument("runs", type=Path, help="what `benchmarks.property.run` wrote")
    parser.add_argument("out", type=Path, help="JSON lines, one a plan")
    parser.add_argument("--count", type=int, default=200, help="plans, of those that there are")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.runs.read_text().splitlines() if line.endswith("}")]
    rows = [row for row in rows if row["verdict"] != "right" and not Drawn.from_dict(row).edited]
    random.Random(arguments.seed).shuffle(rows)
    done, worker = known(arguments.out), Worker()
    with arguments.out.open("a") as file:
        for row in rows[: arguments.count]:
            if row["id"] not in done:
                found = smallest_part(Drawn.from_dict(row), row, worker)
                file.write(json.dumps({"id": row["id"], "smallest": found}) + "\n")
                file.flush()
    worker.close()


if __name__ == "__main__":
    main()
