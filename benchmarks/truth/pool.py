"""Worker processes with a time limit a case: what kills one, or has it hang, is a crash of the plan."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO, Any

from benchmarks.truth.case import ROOT, Case

LIMIT = 60.0  # seconds a case; starting a worker takes about ten of them
RESTART = 500  # cases a process: torch keeps what it cached for every plan


class Worker:
    """One process, started when it is needed and again when it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._done = 0

    def run(self, case: Case) -> dict[str, Any]:
        """The outcome of a case; a `crash` if the process did not live to say."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(case.as_dict()) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=LIMIT)
        except BrokenPipeError:
            line = ""
        except queue.Empty:
            self.close()
            return _killed("TimeoutError", f"not done after {LIMIT:.0f} s")
        if not line:
            code = process.wait()
            self.close()
            return _killed("ProcessDied", f"the process ended with status {code}")
        self._done += 1
        if self._done >= RESTART:
            self.close()
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None and self._process.stdin is not None and self._reader is not None:
            self._process.kill()
            self._process.wait()
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._reader.join()
        self._process = None

    def _start(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.truth.worker"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines, self._done = queue.Queue(), 0
        self._reader = threading.Thread(target=_forward, args=(self._process.stdout, self._lines), daemon=True)
        self._reader.start()


def _forward(stream: IO[str], lines: queue.Queue[str]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put("")  # the end


def _killed(exception: str, message: str) -> dict[str, Any]:
    return {"verdict": "crash", "crash": {"stage": "process", "exception": exception, "message": message}}


def run_all(cases: Iterable[Case], workers: int, report: Callable[[Case, dict[str, Any]], None]) -> None:
    """Runs cases, in order, over several processes.

    Args:
        cases: what to run.
        workers: how many processes.
        report: called with each case and its outcome, one at a time.
    """
    waiting = iter(list(cases))
    lock = threading.Lock()

    def work() -> None:
        worker = Worker()
        while True:
            with lock:
                case = next(waiting, None)
            if case is None:
                break
            found = worker.run(case)
            with lock:
                report(case, found)
        worker.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
