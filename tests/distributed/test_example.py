"""The examples of the docs on processes: what they say of a right plan, and of another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import BUNDLED, RANKS, plan_reference

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def run_example(plan: str, name: str = "four_processes.py", processes: int = RANKS) -> subprocess.CompletedProcess[str]:
    """`docs/examples/NAME PLAN`, started as its first lines say."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"),
        *(f"docs/examples/{name}", plan),
    ]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.parametrize("plan", BUNDLED)
def test_a_bundled_plan_is_the_same_as_one_process(plan: str) -> None:
    done = run_example(plan)
    assert done.returncode == 0, done.stderr
    assert f"{plan} on {RANKS} processes against one" in done.stdout
    assert "gradients compared" in done.stdout


def test_the_published_plan_is_not() -> None:
    done = run_example(plan_reference("seed"))
    assert done.returncode != 0
    assert "the parallel model is not the same: model.layers." in done.stderr
    # The four wrong gradients come first, then what is right but for rounding.
    errors = [line.split() for line in done.stdout.splitlines() if "model.layers" in line or "weight" in line]
    assert {name.split(".")[-2] for error, name in errors if float(error) > 1e-10} == {"q_norm", "k_norm"}


def what_it_trains(plan: str, processes: int) -> str:
    """The norm and the digest that `same_bits.py` prints."""
    done = run_example(plan, "same_bits.py", processes)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{processes} processes: norm ")]
    return line.partition(": ")[2]


def test_under_the_invariant_plan_all_numbers_of_processes_train_the_same() -> None:
    assert len({what_it_trains("qwen_invariant", processes) for processes in (1, 2, 4)}) == 1


def test_under_the_usual_plan_they_do_not() -> None:
    assert what_it_trains("qwen", 1) != what_it_trains("qwen", 2)
