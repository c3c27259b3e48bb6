"""What planlang says of the sums of a plan, asked as a user asks it: `planlang show --reductions --json`."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reward_model.model import CLASS, config
from benchmarks.reward_model.recipe import Recipe

GRADES = ("variant", "forward-invariant", "invariant")  # from the weakest
INVARIANT = GRADES[-1]  # with this the backward pass too
HELD = GRADES[1:]  # with these the forward pass must have the reference's bits
UNKNOWN = "not graded"  # of a plan whose gradients are wrong


@dataclass(frozen=True, slots=True)
class Graded:
    """A plan with its grade.

    Attributes:
        path: the plan's file.
        name: what it is called.
        text: the first 16 hex digits of its file's sha256.
        grade: one of `GRADES`, or `UNKNOWN`.
        is_own_reference: whether its scores are held against the plan on a mesh of one, and not against the unsharded
            model: an invariant plan may compute with kernels of its own, on one rank as on many.
    """

    path: Path
    name: str
    text: str
    grade: str
    is_own_reference: bool = False


def graded(path: Path, recipe: Recipe, degrees: Sequence[int], own: bool = False) -> Graded:
    """A plan with the weakest of its grades on the reward model at several degrees.

    Args:
        path: the plan's file.
        recipe: the sizes of the model.
        degrees: how many ranks, one by one; a mesh of one alone has the grade of two.
        own: whether it is its own reference, even if it is not graded `invariant`.

    Raises:
        RuntimeError: planlang does not take the plan.
    """
    with tempfile.TemporaryDirectory() as folder:
        config(recipe).save_pretrained(folder)
        grades = {_grade(path, folder, tp) for tp in [tp for tp in degrees if tp > 1] or [2]}
    weakest = UNKNOWN if UNKNOWN in grades else min(grades, key=GRADES.index)
    text = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return Graded(path, path.stem, text, weakest, own or weakest == INVARIANT)


def _grade(path: Path, model: str, tp: int) -> str:
    words = [sys.executable, "-m", "planlang", "show", str(path), "--model", model, "--as", CLASS]
    words += ["--tp", str(tp), "--reductions", "--length", "16", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"planlang does not take {path}: {done.stderr or done.stdout}")
    grade = json.loads(done.stdout)["reductions"]["grade"]
    return UNKNOWN if grade is None else str(grade)
