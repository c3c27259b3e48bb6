"""The smallest part of a plan that still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(rules: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> tuple[T, ...]:
    """Rules that fail together, found by putting rules back one at a time.

    What is put back when the failure appears belongs to it. With that kept, the others are put back again, until what
    is kept fails by itself. Parts of a plan that fail in another way do not count.

    Args:
        rules: all of them, in order, which fail together.
        fails: whether some of them do, in the same way.

    Returns:
        Some of the rules, in their order.
    """
    kept: list[T] = []
    while len(kept) < len(rules) and not (kept and fails(kept)):
        back = list(kept)
        for rule in rules:
            if any(rule is each for each in kept):
                continue
            back.append(rule)
            if fails(back):
                break
        kept.append(back[-1])
    return tuple(rule for rule in rules if any(rule is each for each in kept))
