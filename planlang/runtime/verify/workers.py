"""Runs in forked processes: several at once, and one that dies takes no other along."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import torch

from planlang.diagnostics.finding import PlanError
from planlang.runtime.simulate import Crash, Outcome
from planlang.runtime.verify.cases import Case, alike
from planlang.runtime.verify.result import Result
from planlang.runtime.verify.subject import Subject
from planlang.runtime.verify.words import unrunnable

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

PATIENCE = 2.0  # seconds for a process that was told to end
Told = Callable[[str], None]
_Answer = Result | PlanError | str


@dataclass(frozen=True, slots=True)
class Task:
    """Runs that follow one another, since they find in torch's memory what the one before left there."""

    subject: Subject
    cases: tuple[Case, ...]


def tasks_of(subjects: Sequence[Subject], cases: Callable[[int], tuple[Case, ...]]) -> list[Task]:
    """All runs, the longest first."""
    found = [Task(subject, group) for subject in subjects for group in alike(cases(subject.ranks))]
    return sorted(found, key=lambda task: -len(task.cases) * task.subject.ranks)


def run_all(tasks: Sequence[Task], workers: int, told: Told) -> Iterator[Result]:
    """The results, in no order.

    Args:
        tasks: what to run.
        workers: how many processes to fork; 0 runs everything in this one, as is done where forking is not safe.
        told: is told what was begun.

    Raises:
        PlanError: the model itself cannot be run.
    """
    if not workers or sys.platform != "linux" or threading.active_count() > 1:
        with single_thread(all(not task.subject.twin.full for task in tasks)):
            for task in tasks:
                for case in task.cases:
                    told(_name(task, case))
                    yield task.subject.run(case)
        return
    with _Crew(tasks, min(workers, len(tasks)), told) as crew:
        yield from crew.results()


@contextmanager
def single_thread(wanted: bool) -> Iterator[None]:
    """Inside, an operator runs on one thread: a small one gains nothing by more, and results are the same anywhere."""
    before = torch.get_num_threads()
    try:
        if wanted:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


class _Crew:
    """Forked processes and what each of them has to do; all have ended when it is left, whatever the reason."""

    def __init__(self, tasks: Sequence[Task], workers: int, told: Told) -> None:
        self.tasks, self.workers, self.told = tasks, workers, told
        self.waiting = [(number, 0) for number in range(len(tasks))]  # a task and the first case of it
        self.busy: dict[Connection, tuple[ForkProcess, int, int]] = {}
        self.threads = torch.get_num_threads()

    def __enter__(self) -> _Crew:
        torch.set_num_threads(1)  # threads do not live on in a fork, so there must be none
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self.threads)
        for process, _number, _index in self.busy.values():
            process.terminate()
        for line, (process, _number, _index) in self.busy.items():
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
            line.close()
        self.busy.clear()

    def results(self) -> Iterator[Result]:
        """The results as they come."""
        while self.waiting and len(self.busy) < self.workers:
            self._start()
        while self.busy:
            for line in connection.wait(list(self.busy)):
                assert isinstance(line, Connection)
                found = self._answer(line)
                if isinstance(found, str):
                    raise RuntimeError(f"a worker failed:\n{found}")
                if isinstance(found, PlanError):
                    raise found
                yield found

    def _start(self) -> None:
        ours, theirs = get_context("fork").Pipe()
        process = get_context("fork").Process(
            target=_work, args=(theirs, [ours, *self.busy], self.tasks, self.threads), daemon=True
        )
        process.start()
        theirs.close()
        self._give(ours, process)

    def _give(self, line: Connection, process: ForkProcess) -> None:
        """Gives a process the next task, or has it end."""
        if not self.waiting:
            self.busy.pop(line, None)
            line.close()
            process.join()
            return
        number, index = self.waiting.pop(0)
        self.busy[line] = (process, number, index)
        with suppress(BrokenPipeError):  # it died: that shows when its answer is read
            line.send((number, index))
        self.told(_name(self.tasks[number], self.tasks[number].cases[index]))

    def _answer(self, line: Connection) -> _Answer:
        process, number, index = self.busy[line]
        task = self.tasks[number]
        try:
            found: _Answer = line.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            del self.busy[line]
            line.close()
            if index + 1 < len(task.cases):
                self.waiting.insert(0, (number, index + 1))
            if self.waiting:
                self._start()
            case = task.cases[index]
            if status := _alone(task.subject, case):
                return PlanError([unrunnable(case, ended(status))])
            return died(task.subject.ranks, case, process.exitcode)
        if index + 1 < len(task.cases):
            self.busy[line] = (process, number, index + 1)
            self.told(_name(task, task.cases[index + 1]))
        else:
            self._give(line, process)
        return found


def died(ranks: int, case: Case, status: int | None) -> Result:
    """What is said of a run whose process did not live to say it.

    Args:
        ranks: how many.
        case: the circumstances.
        status: what the process ended with; below 0 the number of the signal that ended it.
    """
    crash = Crash(stage="process", exception="ProcessDied", message=f"the process was ended {ended(status)}")
    return Result(ranks, case, Outcome(verdict="crash", crash=crash), 0.0, 0.0)


def ended(status: int | None) -> str:
    """How a process was ended, in words."""
    if status is not None and status < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-status).name}"
    return f"with status {status}"


def _alone(subject: Subject, case: Case) -> int | None:
    """What a process ends with that computes on one device, without a plan; 0 where it comes to its end."""
    process = get_context("fork").Process(target=_right, args=(subject, case), daemon=True)
    process.start()
    process.join()
    return process.exitcode


def _right(subject: Subject, case: Case) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(Exception):  # what is raised was said by the run itself
        subject.right(case)
    os._exit(0)


def _work(line: Connection, ends: list[Connection], tasks: Sequence[Task], threads: int) -> None:
    """What a forked process does: one task after the other, until there is no one who asks for more."""
    for end in ends:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told too, and ends this process
    try:
        while True:
            number, first = line.recv()
            task = tasks[number]
            if task.subject.twin.full:
                torch.set_num_threads(threads)
            for case in task.cases[first:]:
                line.send(_found(task.subject, case))
    except (EOFError, BrokenPipeError):  # the parent has ended, or has no more to do
        os._exit(0)


def _found(subject: Subject, case: Case) -> _Answer:
    try:
        return subject.run(case)
    except PlanError as error:
        return error
    except Exception:  # a mistake of ours: the process that asked raises it, with this trace
        return traceback.format_exc()


def _name(task: Task, case: Case) -> str:
    return f"tp={task.subject.ranks}, {case.name}"
