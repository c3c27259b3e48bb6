"""The process that simulates, `python -m benchmarks.truth.worker`: a case a line in, an outcome a line out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.truth.case import Case, shared, style_of
from planlang.runtime.simulate import Truth, simulate, truth

_truths: dict[tuple[object, ...], Truth] = {}


def run(case: Case) -> dict[str, Any]:
    """The outcome of a case as plain data."""
    right = truth_of(case)
    styles = {name: style_of(text) for name, text in case.styles.items()}
    return simulate(
        make_of(case),
        styles,
        case.tp,
        right.inputs,
        retie=case.retie,
        right=right,
        micro_batches=case.micro_batches,
    ).as_dict()


def make_of(case: Case) -> Callable[[], nn.Module]:
    """What makes the model of a case."""
    return partial(shared("twins").make, case.twin, layers=case.layers, attention=case.attention)


def truth_of(case: Case) -> Truth:
    """What the unsharded model of a case computes; once for all its plans."""
    key = (case.twin, case.layers, case.attention, case.batch, case.length, case.masked)
    if key not in _truths:
        inputs = shared("twins").inputs(case.twin, batch=case.batch, length=case.length, masked=case.masked)
        _truths[key] = truth(make_of(case), inputs)
    return _truths[key]


def main() -> None:
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what torch or transformers print must not come between the answers
    for line in sys.stdin:
        answers.write(json.dumps(run(Case.from_dict(json.loads(line)))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
