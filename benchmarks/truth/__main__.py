"""`python -m benchmarks.truth OUT.jsonl`: simulates a sample of plans; started again, it goes on where it ended."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.truth.case import Case
from benchmarks.truth.pool import run_all
from benchmarks.truth.sample import cases


def known(path: Path) -> set[str]:
    """The names of the cases in a file; a last line that was cut off is dropped from it."""
    if not path.exists():
        return set()
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines = lines[:-1]
        path.write_text("".join(lines))
    return {json.loads(line)["id"] for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__)
    parser.add_argument("out", type=Path, help="JSON lines, one a case")
    parser.add_argument("--count", type=int, default=4000, help="wrong and random plans, besides the right ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    done = known(arguments.out)
    waiting = [case for case in cases(arguments.count, arguments.seed) if case.id not in done]
    print(f"{len(done)} done, {len(waiting)} to do", flush=True)
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    with arguments.out.open("a") as file:

        def report(case: Case, found: dict[str, Any]) -> None:
            verdict = found.pop("verdict")
            file.write(json.dumps({**case.as_dict(), "verdict": verdict, "detail": found}) + "\n")
            file.flush()
            counts[verdict] += 1
            if counts.total() % 100 == 0:
                seconds = (time.perf_counter() - start) / counts.total()
                print(f"{counts.total()} at {seconds:.3f} s: {dict(counts)}", flush=True)

        run_all(waiting, arguments.workers, report)
    print(dict(counts))


if __name__ == "__main__":
    main()
