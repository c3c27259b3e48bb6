"""The truth about the truth: `python -m benchmarks.truth.processes CASES.jsonl` runs some cases on real processes.

Each rank is a process of its own over gloo, forked for one case, and judged by the code that judges simulated ranks.
Prints every case with another verdict, and how many there are of each pair of verdicts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from benchmarks.truth.case import Case, style_of
from benchmarks.truth.worker import make_of, truth_of
from planlang.runtime.simulate.run import Run

ORDER = ("crash", "forward", "gradient", "right")  # the worst verdict of any rank is the plan's
LIMIT = 25.0  # seconds a case
WAIT = timedelta(seconds=8)  # for a collective


def verdict(case: Case) -> tuple[str, list[dict[str, Any]]]:
    """The verdict of real processes, and the outcome on each rank."""
    truth_of(case)  # before the fork, so that no rank computes it
    with tempfile.TemporaryDirectory() as folder:
        pids = [_fork(rank, case, Path(folder)) for rank in range(case.tp)]
        hung = _wait(pids)
        found = [_read(Path(folder) / f"{rank}.json", hung) for rank in range(case.tp)]
    return min((each["verdict"] for each in found), key=ORDER.index), found


def _fork(rank: int, case: Case, folder: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        found = _rank(rank, case, folder)
        (folder / f"{rank}.json").write_text(json.dumps(found))
        os._exit(0)
    finally:
        os._exit(1)


def _rank(rank: int, case: Case, folder: Path) -> dict[str, Any]:
    address = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=case.tp, timeout=WAIT)
    mesh = init_device_mesh("cpu", (case.tp,), mesh_dim_names=("tp",))
    styles = {name: style_of(text) for name, text in case.styles.items()}
    right = truth_of(case)
    return Run(make_of(case)(), mesh, right).outcome(styles, [right.inputs], case.retie).as_dict()


def _wait(pids: list[int]) -> bool:
    """Waits for processes and ends those that take too long; whether there were any."""
    left, start = set(pids), time.monotonic()
    while left and time.monotonic() - start < LIMIT:
        left -= {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return bool(left)


def _read(path: Path, hung: bool) -> dict[str, Any]:
    if path.exists() and (text := path.read_text()):
        found: dict[str, Any] = json.loads(text)
        return found
    return {"verdict": "crash", "crash": {"exception": "TimeoutError" if hung else "ProcessDied"}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth.processes", description=__doc__)
    parser.add_argument("cases", type=Path, help="what `python -m benchmarks.truth` wrote")
    parser.add_argument("--each", type=int, default=30, help="cases of each verdict")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in arguments.cases.read_text().splitlines()]
    draw = random.Random(arguments.seed)
    pairs: Counter[tuple[str, str]] = Counter()
    for wanted in ORDER:
        own = [row for row in rows if row["verdict"] == wanted]
        for row in draw.sample(own, min(arguments.each, len(own))):
            got, ranks = verdict(Case.from_dict(row))
            pairs[wanted, got] += 1
            if got != wanted:
                print(json.dumps({**row, "processes": got, "ranks": ranks}), flush=True)
    for (wanted, got), count in pairs.items():
        print(f"{count} simulated as {wanted}, {got} on processes")
    sys.exit(any(wanted != got for wanted, got in pairs))


if __name__ == "__main__":
    main()
