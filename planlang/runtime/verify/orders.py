"""What `verify` and the real processes that it starts tell each other, in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planlang.diagnostics.finding import PlanError
from planlang.plan.styles import Style
from planlang.runtime.simulate import Outcome
from planlang.runtime.verify.cases import Case
from planlang.runtime.verify.twin import Twin

ORDER = "order"  # the file that says what is to be run
PID = "pid"  # begins the names of the files that say which process a rank is


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the processes are to run.

    Attributes:
        twin: the model.
        styles: the style of each of the twin's modules that has one.
        cases: the circumstances, in order.
        first: the number of the first one to run.
        device: `cpu` or `cuda`.
        wait: seconds that a rank waits for the others in a collective.
        parent: the process that waits for the answers; without it there is nothing to run for.
    """

    twin: Twin
    styles: Mapping[str, Style]
    cases: tuple[Case, ...]
    first: int
    device: str
    wait: float
    parent: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What one rank found in one case.

    Attributes:
        found: the outcome, or that the model itself cannot be run.
        tolerance: what was taken for rounding.
        seconds: how long it took.
        ended: when, by a clock that all ranks share.
    """

    found: Outcome | PlanError
    tolerance: float
    seconds: float
    ended: float
