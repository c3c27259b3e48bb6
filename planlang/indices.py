"""Sets of layer numbers: finite, or all numbers but finitely many.

A class of models has any number of layers, so "every layer but the first four" must be a value, not a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexSet:
    """A set of natural numbers.

    Attributes:
        members: what is in it where it is `finite`, and what is not in it where it is not.
    """

    members: frozenset[int]
    finite: bool = True

    @classmethod
    def of(cls, numbers: Iterable[int]) -> IndexSet:
        """The finite set of `numbers`."""
        return cls(frozenset(numbers))

    def __contains__(self, number: int) -> bool:
        return (number in self.members) == self.finite

    def __bool__(self) -> bool:
        return not self.finite or bool(self.members)

    def __len__(self) -> int:
        if not self.finite:
            raise ValueError("an open index set has no length")
        return len(self.members)

    def __iter__(self) -> Iterator[int]:
        if not self.finite:
            raise ValueError("an open index set cannot be listed")
        return iter(sorted(self.members))

    def __and__(self, other: IndexSet) -> IndexSet:
        match self.finite, other.finite:
            case True, True:
                return IndexSet(self.members & other.members)
            case True, False:
                return IndexSet(self.members - other.members)
            case False, True:
                return IndexSet(other.members - self.members)
            case _:
                return IndexSet(self.members | other.members, finite=False)

    def __invert__(self) -> IndexSet:
        return IndexSet(self.members, finite=not self.finite)

    def __sub__(self, other: IndexSet) -> IndexSet:
        return self & ~other

    def __or__(self, other: IndexSet) -> IndexSet:
        return ~(~self & ~other)

    def __str__(self) -> str:
        """As the language writes it: `{0..27}`, `{0,2,7}`; `*` for all; `*` and what is left out for an open set."""
        if not self.finite:
            return "*" if not self.members else f"* except {IndexSet(self.members)}"
        return "{" + ",".join(_runs(sorted(self.members))) + "}"


ALL = IndexSet(frozenset(), finite=False)
NONE = IndexSet(frozenset())


def _runs(numbers: list[int]) -> Iterator[str]:
    """Runs of three and more consecutive numbers as `a..b`, the others one by one."""
    at = 0
    while at < len(numbers):
        end = at
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        if end - at >= 2:
            yield f"{numbers[at]}..{numbers[end]}"
            at = end + 1
        else:
            yield str(numbers[at])
            at += 1
