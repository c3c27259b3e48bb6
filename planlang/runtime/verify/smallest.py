"""The smallest part of a plan that still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(rules: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> tuple[T, ...]:
    """What is left when rules are taken away one at a time for as long as the rest still fails.

    Args:
        rules: all of them, which fail together.
        fails: whether some of them do.
    """
    kept = list(rules)
    for rule in rules:
        rest = [each for each in kept if each is not rule]
        if rest and fails(rest):
            kept = rest
    return tuple(kept)
