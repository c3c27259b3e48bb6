"""Integers of a pass as formulas in its batch size and length, found from what they were at a few settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Setting: TypeAlias = tuple[int, int]

# Sizes of a language model are such products (`batch * length * experts per token`) ...
_POWERS = ((0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (2, 0), (2, 1), (2, 2))
# ... or what is left of a constant: a gated delta net fills its chunk up with `64 - length` zeros.
_LINEAR = ((0, 1), (1, 0), (1, 1))


class Inexpressible(Exception):
    """The passes have no common form; the message says why."""


@dataclass(frozen=True, slots=True)
class Formula:
    """`plus + times * batch**of_batch * length**of_length`."""

    plus: int
    times: int
    of_batch: int
    of_length: int

    def at(self, batch: int, length: int) -> int:
        """Its value."""
        return self.plus + int(self.times * batch**self.of_batch * length**self.of_length)


def fit(numbers: Sequence[int], settings: Sequence[Setting]) -> int | Formula:
    """The formula that gives each number at its setting, or the number itself where all are equal.

    A product is found from two settings and a linear formula too, so three settings confirm what is found.

    Args:
        numbers: at least one.
        settings: batch size and length of each.

    Raises:
        Inexpressible: there is none.
    """
    first = numbers[0]
    if all(number == first for number in numbers):
        return first
    for of_batch, of_length in _POWERS:
        terms = [batch**of_batch * length**of_length for batch, length in settings]
        times = first // terms[0]
        if all(times * term == number for term, number in zip(terms, numbers, strict=True)):
            return Formula(0, times, of_batch, of_length)
    for of_batch, of_length in _LINEAR:
        terms = [batch**of_batch * length**of_length for batch, length in settings]
        other = next((k for k, term in enumerate(terms) if term != terms[0]), None)
        if other is None:
            continue
        times = (numbers[other] - first) // (terms[other] - terms[0])
        plus = first - times * terms[0]
        if all(plus + times * term == number for term, number in zip(terms, numbers, strict=True)):
            return Formula(plus, times, of_batch, of_length)
    where = ", ".join(
        f"{number} at {batch} x {length}" for number, (batch, length) in zip(numbers, settings, strict=True)
    )
    raise Inexpressible(f"no formula in batch and length gives {where}")
