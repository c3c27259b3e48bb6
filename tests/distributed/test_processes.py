"""Plans on real processes: logits, loss, every gradient and three optimizer steps against one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import CASES, RANKS, RIGHT, WRONG, Case

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
TOLERANCE = 1e-10


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the processes found, by case: they are started once for all cases."""
    out = tmp_path_factory.mktemp("processes") / "reports.json"
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"),
        *(str(HERE / "worker.py"), str(out)),
    ]
    paths = [str(HERE.parent.parent), os.environ.get("PYTHONPATH")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=580, check=False)
    assert out.exists(), done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def report(reports: dict[str, Any], case: Case) -> dict[str, Any]:
    """One case's, if the processes came that far."""
    assert case.name in reports, f"not reached: {list(reports)[-1]} came last"
    found: dict[str, Any] = reports[case.name]
    assert "raised" not in found, found["raised"]
    return found


def test_the_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_a_right_plan_trains_as_one_process_does(reports: dict[str, Any], case: Case) -> None:
    found = report(reports, case)
    assert {key: error for key, error in found["errors"].items() if not error <= TOLERANCE} == {}
    assert found["differing"] == []
    assert case.length == 1 or found["noise"] == []


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_the_published_plan_gets_the_head_norms_wrong_and_nothing_else(reports: dict[str, Any], case: Case) -> None:
    found = report(reports, case)
    head_norms = {
        f"gradient model.layers.{layer}.self_attn.{which}_norm.weight" for layer in (0, 1) for which in ("q", "k")
    }
    first_step = {key: error for key, error in found["errors"].items() if not key.startswith("weight ")}
    assert {key for key, error in first_step.items() if not error <= TOLERANCE} == head_norms
    assert all(first_step[key] > 0.5 for key in head_norms)
    # Each rank has another gradient, so the copies of these weights part at the first step.
    assert set(found["differing"]) == head_norms | {key.replace("gradient", "weight") for key in head_norms}
