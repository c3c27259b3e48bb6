"""The truth about a plan: all its ranks in one process, held against the unsharded model."""

from planlang.runtime.simulate.outcome import Crash, Outcome, WrongGradient
from planlang.runtime.simulate.run import TOLERANCE, simulate
from planlang.runtime.simulate.truth import Truth, truth

__all__ = ["TOLERANCE", "Crash", "Outcome", "Truth", "WrongGradient", "simulate", "truth"]
