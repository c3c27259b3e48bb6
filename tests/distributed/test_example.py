"""The example of the docs on four processes: it says nothing of a right plan and fails on a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import BUNDLED, RANKS, plan_reference

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def run_example(plan: str) -> subprocess.CompletedProcess[str]:
    """`docs/examples/four_processes.py PLAN`, started as its first lines say."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"),
        *("docs/examples/four_processes.py", plan),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
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
