"""What became of one run."""

from __future__ import annotations

from dataclasses import dataclass

from planlang.runtime.simulate import Outcome
from planlang.runtime.verify.cases import Case


@dataclass(frozen=True, slots=True)
class Result:
    """One run.

    Attributes:
        ranks: how many.
        case: the circumstances.
        outcome: what became of it.
        tolerance: what was taken for rounding.
        seconds: how long it took.
    """

    ranks: int
    case: Case
    outcome: Outcome
    tolerance: float
    seconds: float

    @property
    def right(self) -> bool:
        """Whether logits, gradients and, where it was asked for, the weights after a step are those of one device."""
        return self.outcome.verdict == "right" and self.outcome.stepped <= self.tolerance
