"""Times two things in turn and compares them pair by pair, so that a machine that slows down slows both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pairs:
    """Seconds of two things, measured in turn."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the ratios of neighbouring runs."""
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))


def in_turn(ours: Callable[[], object], theirs: Callable[[], object], runs: int = 5) -> Pairs:
    """Runs both once to warm up, then in turn."""
    ours(), theirs()
    pairs = [(seconds_of(ours), seconds_of(theirs)) for _ in range(runs)]
    return Pairs(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def seconds_of(work: Callable[[], object]) -> float:
    """How long a call takes, with no garbage of others to collect."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(what: str, pairs: Pairs, aim: float) -> None:
    """Prints medians, the ratio and what was aimed at."""
    ours, theirs = statistics.median(pairs.ours), statistics.median(pairs.theirs)
    verdict = "met" if pairs.ratio <= aim else "MISSED"
    print(f"{what}: {ours:.3f} s against {theirs:.3f} s, ratio {pairs.ratio:.3f} (aim {aim:g}: {verdict})")
