"""The same runs on real processes, one a rank, that `torchrun` starts: gloo on this machine, or nccl on its GPUs."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError
from planlang.runtime.simulate import Crash, Outcome
from planlang.runtime.verify.cases import Case
from planlang.runtime.verify.orders import ORDER, PID, Answer, Order
from planlang.runtime.verify.result import Result
from planlang.runtime.verify.subject import Subject

LIMIT = 120.0  # seconds for a case
START = 300.0  # seconds until all processes have imported torch, all at once
PATIENCE = 5.0  # seconds that torchrun has to end its processes
_POLL = 0.05
_LOG = "torchrun.log"
_SIGNAL = re.compile(r"Signal \d+ \((SIG\w+)\) received")
_ORDER = ("crash", "forward", "gradient", "right")


def missing_devices(device: str, ranks: int) -> Finding | None:
    """What is said where there are fewer devices than ranks."""
    if device == "cpu":
        return None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count >= ranks:
        return None
    message = f"{ranks} processes on `cuda` need a GPU each, and this machine has {count or 'none'}"
    return Finding(
        code=codes.NO_SUCH_DEVICES, message=message, help="leave `--device` out: processes on CPUs compute the same"
    )


def run_processes(
    subject: Subject, cases: Sequence[Case], device: str, limit: float, told: Callable[[str], None]
) -> Iterator[Result]:
    """The result of each case.

    Args:
        subject: the model and the plan.
        cases: the circumstances.
        device: `cpu` or `cuda`.
        limit: seconds that a case may take; what takes longer is ended, and that is its result.
        told: is told what was begun.

    Raises:
        PlanError: the model itself cannot be run.
    """
    first = 0
    while first < len(cases):
        with _ended_like_interrupted(), _Launch(subject, tuple(cases), first, device, limit) as launch:
            for number in range(first, len(cases)):
                told(f"{subject.ranks} processes, {cases[number].name}")
                answers, reason = launch.answers(number)
                first = number + 1
                yield _result(subject.ranks, cases[number], answers, reason)
                if reason:  # the processes are gone: others go on behind the case that ended them
                    break


def _result(ranks: int, case: Case, answers: Sequence[Answer], reason: str) -> Result:
    """What the ranks found, as one: where something was raised, the first of them that failed speaks for all."""
    outcomes: list[tuple[Outcome, Answer]] = []
    for answer in answers:
        if isinstance(answer.found, PlanError):
            raise answer.found
        outcomes.append((answer.found, answer))
    tolerance = max((each.tolerance for each in answers), default=0.0)
    seconds = max((each.seconds for each in answers), default=0.0)
    crashed = [pair for pair in outcomes if pair[0].verdict == "crash"]
    if reason:
        waited = next((outcome.crash.module for outcome, _ in crashed if outcome.crash), "")
        crash = Crash(stage="process", exception="ProcessDied", message=reason, module=waited)
        found = Outcome(verdict="crash", crash=crash)
    elif crashed:
        failed = [pair for pair in outcomes if pair[0].verdict in ("crash", "forward")]
        found = min(failed, key=lambda pair: pair[1].ended)[0]
    else:
        found = min(
            (outcome for outcome, _ in outcomes),
            key=lambda each: (_ORDER.index(each.verdict), -each.forward_error, -each.worst, -each.stepped),
        )
    return Result(ranks, case, found, tolerance, seconds)


@contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """Inside, this process cleans up when it is told to end, as schedulers do, and not only when it is interrupted."""
    if threading.current_thread() is not threading.main_thread():  # others may set no handlers
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Launch:
    """One `torchrun` and its processes; they and their files are gone when it is left, whatever the reason."""

    def __init__(self, subject: Subject, cases: tuple[Case, ...], first: int, device: str, limit: float) -> None:
        self.subject, self.limit = subject, limit
        self.order = Order(
            twin=subject.twin,
            styles={name: each.style for name, each in subject.applied.items()},
            cases=cases,
            first=first,
            device=device,
            wait=limit / 2,
            parent=os.getpid(),
        )
        self._files = tempfile.TemporaryDirectory(prefix="planlang-", ignore_cleanup_errors=True)
        self.folder = Path(self._files.name)

    def __enter__(self) -> _Launch:
        try:
            (self.folder / ORDER).write_bytes(pickle.dumps(self.order))
            with (self.folder / _LOG).open("wb") as log:
                self.torchrun = subprocess.Popen(
                    self._command(),
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # an interrupt reaches this process alone, which then ends the others
                )
        except BaseException:
            self._files.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._files.cleanup()

    def answers(self, number: int) -> tuple[list[Answer], str]:
        """What the ranks found in one case, and why some found nothing."""
        reason = self._awaited([f"{PID}.{rank}" for rank in range(self.subject.ranks)], START)
        names = [f"{number}.{rank}" for rank in range(self.subject.ranks)]
        reason = reason or self._awaited(names, self.limit)
        paths = [self.folder / name for name in names]
        return [pickle.loads(path.read_bytes()) for path in paths if path.exists()], reason

    def _awaited(self, names: list[str], limit: float) -> str:
        """Waits for files, and says why some of them do not come."""
        start, paths = time.monotonic(), [self.folder / name for name in names]
        while not all(path.exists() for path in paths):
            if self.torchrun.poll() is not None:
                return "" if all(path.exists() for path in paths) else self._death()
            if time.monotonic() - start > limit:
                return f"it was ended after {limit:g} seconds"
            time.sleep(_POLL)
        return ""

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=0"),
            *(f"--nproc-per-node={self.subject.ranks}", "--monitor-interval=0.1", "--shutdown-timeout=2"),
            *("--redirects=3", f"--log-dir={self.folder / 'log'}"),
            *("-m", "planlang.runtime.verify.rank", str(self.folder)),
        ]

    def _environment(self) -> dict[str, str]:
        own = {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),  # custom styles are found where they were found
            "TMPDIR": str(self.folder),
            "OMP_NUM_THREADS": "1",
        }
        found = os.environ | own
        if sys.platform == "linux":
            found.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return found

    def _death(self) -> str:
        """What became of the processes: the signal that ended one, else the last line that one of them wrote."""
        log = (self.folder / _LOG).read_text(encoding="utf-8", errors="replace")
        signals = sorted(_SIGNAL.findall(log), key=lambda name: name == "SIGTERM")  # with which torchrun ends the rest
        if signals:
            return f"a process was ended by {signals[0]}"
        lines = [
            line.strip()
            for path in sorted(self.folder.glob("log/**/stderr.log"))
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
        ]
        said = lines[0] if lines else log.strip().rpartition("\n")[2]
        return f"a process died{': ' + said[:300] if said else ''}"

    def _end(self) -> None:
        """Ends torchrun, which ends the ranks; they also end by themselves once it is gone."""
        if self.torchrun.poll() is not None:
            return
        self.torchrun.terminate()
        try:
            self.torchrun.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            for path in self.folder.glob(f"{PID}.*"):
                with suppress(ProcessLookupError):
                    os.kill(int(path.read_text()), signal.SIGKILL)
            self.torchrun.kill()
            self.torchrun.wait()
