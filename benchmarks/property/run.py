"""`python -m benchmarks.property.run OUT.jsonl`: runs random plans; started again, it goes on where it ended.

A plan is run in its circumstances until one is not right: that one says what is wrong with it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.property.drawn import Drawn, draw_plans
from benchmarks.truth.__main__ import known
from benchmarks.truth.pool import Worker


def outcome(drawn: Drawn, worker: Worker) -> dict[str, Any]:
    """The worst that becomes of a plan.

    Returns:
        Its `verdict`, and as `detail` what the simulation found; where it is not right, the `circumstance`, and the
        number of circumstances that were `run`.
    """
    count = 0
    for case in drawn.cases():
        count += 1
        found = worker.run(case)
        verdict = found.pop("verdict")
        if verdict != "right":
            where = {key: value for key, value in case.as_dict().items() if key not in ("styles", "kind", "edit")}
            return {"verdict": verdict, "run": count, "circumstance": where, "detail": found}
    return {"verdict": "right", "run": count}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.property.run", description=__doc__)
    parser.add_argument("out", type=Path, help="JSON lines, one a plan")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    done = known(arguments.out)
    waiting = [each for each in islice(draw_plans(arguments.seed), arguments.count) if each.id not in done]
    print(f"{len(done)} done, {len(waiting)} to do", flush=True)
    counts: Counter[str] = Counter()
    worker, start = Worker(), time.monotonic()
    with arguments.out.open("a") as file:
        for each in waiting:
            found = outcome(each, worker)
            file.write(json.dumps({"id": each.id, **asdict(each), **found}) + "\n")
            file.flush()
            counts[found["verdict"]] += 1
            if counts.total() % 100 == 0:
                seconds = (time.monotonic() - start) / counts.total()
                print(f"{counts.total()} at {seconds:.3f} s: {dict(counts)}", flush=True)
    worker.close()
    print(dict(counts))


if __name__ == "__main__":
    main()
