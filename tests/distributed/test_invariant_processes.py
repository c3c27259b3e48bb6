"""The invariant plan on real processes: groups of 2 and 4 end with the bits that one process ends with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
MODELS = ("qwen3", "qwen3-tied", "qwen2-bias", "qwen3-score")
DTYPES = ("bfloat16", "float32")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the processes found: they are started once for all."""
    out = tmp_path_factory.mktemp("bits") / "reports.json"
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"),
        *(str(HERE / "bits_worker.py"), str(out)),
    ]
    paths = [str(HERE.parent.parent), os.environ.get("PYTHONPATH")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=580, check=False)
    assert out.exists(), done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def differing(report: dict[str, list[dict[str, str]]], tp: int) -> set[str]:
    """What has other bits on some process of the groups of `tp` than on the first that trained alone."""
    right = report["1"][0]
    assert len(report[str(tp)]) == 4
    assert all(each.keys() == right.keys() for each in report[str(tp)])
    return {name for each in report[str(tp)] for name, digest in each.items() if digest != right[name]}


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", MODELS)
def test_groups_of_processes_have_the_bits_of_one(reports: dict[str, Any], model: str, dtype: str, tp: int) -> None:
    report = reports[f"qwen_invariant {model} {dtype}"]
    assert len(report["1"][0]) > 3 * 2 * 20
    assert differing(report, tp) == set()


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_under_another_plan_they_have_not(reports: dict[str, Any], dtype: str, tp: int) -> None:
    assert "0 logits" in differing(reports[f"qwen qwen2-bias {dtype}"], tp)
