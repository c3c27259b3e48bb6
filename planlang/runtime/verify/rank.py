"""One of the processes that `verify --processes` starts: `torchrun ... -m planlang.runtime.verify.rank FOLDER`.

It reads what is to be run, runs each case with the code that judges simulated ranks, and leaves what it found in files
of the folder, which are there whole or not at all.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from planlang.diagnostics.finding import PlanError
from planlang.model.calls import silence
from planlang.runtime.simulate import Outcome
from planlang.runtime.simulate.exact import float64_kept
from planlang.runtime.simulate.run import Run
from planlang.runtime.simulate.truth import split, stepped
from planlang.runtime.verify.orders import ORDER, PID, Answer, Order
from planlang.runtime.verify.subject import Subject


def main(folder: Path) -> None:
    """Runs all cases of the order."""
    order: Order = pickle.loads((folder / ORDER).read_bytes())
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    _leave(folder / f"{PID}.{rank}", str(os.getpid()).encode())
    threading.Thread(target=_end_with, args=(order.parent, os.getppid()), daemon=True).start()
    torch.set_num_threads(1)
    if order.device == "cuda":
        torch.cuda.set_device(rank)
    subject = Subject(order.twin, {}, ranks)
    for number in range(order.first, len(order.cases)):
        start = time.monotonic()
        with silence():
            try:
                allowed, found = _run(order, subject, number, rank, folder)
            except PlanError as error:
                allowed, found = 0.0, error
        now = time.monotonic()
        _leave(folder / f"{number}.{rank}", pickle.dumps(Answer(found, allowed, now - start, now)))


def _run(order: Order, subject: Subject, number: int, rank: int, folder: Path) -> tuple[float, Outcome | PlanError]:
    """The outcome on this rank, in a process group of its own: what one case leaves behind does no harm to the next."""
    case = order.cases[number]
    right = subject.right(case)
    allowed = subject.allowed(case, right)
    dist.init_process_group(
        "nccl" if order.device == "cuda" else "gloo",
        init_method=f"file://{folder / f'store{order.first}.{number}'}",
        rank=rank,
        world_size=subject.ranks,
        timeout=timedelta(seconds=order.wait),
    )
    try:
        mesh = init_device_mesh(order.device, (subject.ranks,), mesh_dim_names=("tp",))
        parts = [
            {key: each.to(order.device) if isinstance(each, Tensor) else each for key, each in part.items()}
            for part in split(right.inputs, case.micro_batches)
        ]
        weights = stepped(right) if case.step else {}
        run = Run(subject.make(case).to(order.device), mesh, right, tolerance=allowed)
        with float64_kept(subject.kept):
            outcome = run.outcome(order.styles, parts, retie=True)
        if case.step and _all_right(outcome, order.device):
            outcome = replace(outcome, stepped=run.stepped(weights))
        return allowed, outcome
    finally:
        with suppress(Exception):  # torch's group may be broken; the next case makes another
            dist.destroy_process_group()


def _all_right(outcome: Outcome, device: str) -> bool:
    """Whether no rank has found anything wrong, so that all go on together."""
    wrong = torch.tensor(float(outcome.verdict != "right"), device=device)
    try:
        dist.all_reduce(wrong)
    except RuntimeError:  # another rank has left, and says why
        return False
    return not wrong.item()


def _leave(path: Path, content: bytes) -> None:
    """Writes a file that is there only once it is whole."""
    unfinished = path.with_name(f"part.{path.name}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _end_with(*processes: int) -> None:
    """Ends this process once one of those is gone that it works for."""
    while True:
        try:
            for process in processes:
                os.kill(process, 0)
        except ProcessLookupError:
            os._exit(1)
        time.sleep(0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
