"""Forked runs of `verify`: the same results, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "planlang", "verify", "qwen", "--model", "Qwen/Qwen3-8B", "--tp", "2,4,8"]
SAME = """
import planlang
from planlang.verifier import verify

def found(workers):
    results = verify(planlang.load("qwen"), "Qwen/Qwen3-8B", tp=(2, 3), workers=workers).results
    return [(each.ranks, each.case, each.outcome, each.tolerance) for each in results]

assert len(found(0)) == 8 and found(2) == found(0)
"""
DIES = """
import os, signal
import planlang
from planlang.runtime.verify import subject
from planlang.verifier import verify

run = subject.Subject.run

def deadly(self, case):
    if case.name in ("training", "length 1"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return run(self, case)

subject.Subject.run = deadly
found = verify(planlang.load("qwen"), "Qwen/Qwen3-8B", tp=2, workers=2)
assert [each.right for each in found.results] == [False, True, False] + 5 * [True]
(finding,) = [each for each in found.findings if each.severity == "error"]
assert "the process was ended by SIGSEGV" in finding.message, finding
assert "in 2 of 8 circumstances: training, length 1" in finding.notes, finding
"""
DIES_ALONE = """
import os, signal
import planlang
from planlang.diagnostics.finding import PlanError
from planlang.runtime.verify import subject
from planlang.verifier import verify

right = subject.Subject.right

def deadly(self, case):
    if case.name == "training":
        os._exit(3)
    return right(self, case)

subject.Subject.right = deadly
try:
    verify(planlang.load("qwen"), "Qwen/Qwen3-8B", tp=2, workers=2)
except PlanError as error:
    (finding,) = error.findings
assert finding.code.number == "PLN0014", finding
assert "without any plan (training): the process was ended with status 3" in finding.message, finding
"""


@pytest.mark.parametrize(
    "program",
    [SAME, DIES, DIES_ALONE],
    ids=["the same results", "a run that ends its process", "a model that ends its process"],
)
def test_in_a_program(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_leaves_no_process_and_no_file(number: signal.Signals, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(COMMAND, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (forked := children(process.pid)) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if number is signal.SIGINT else -number)
    assert not said.strip()
    deadline = time.monotonic() + 60  # without the parent a run comes to its end first
    while any(map(alive, forked)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert forked
    assert not any(map(alive, forked))
    # An optimizer has torch import its compiler, which makes the folder of its cache, for all programs.
    assert not [each for each in tmp_path.iterdir() if not each.name.startswith("torchinductor_")]
