"""Integers that were read off a tensor's shape.

Arithmetic keeps their origin. Comparisons are noted as guards, and so is where one becomes a float, but for what Python
computes without asking: `1.0 / length`, where the float comes first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

from planlang.model.graph import FLOAT, Argument, Arithmetic, Event, Expression, Guard, Size


class Notes(Protocol):
    """Where guards are noted."""

    def note(self, event: Event) -> None: ...


class TracedInt(int):
    """An integer with its origin. It behaves as an `int` in all else, so what is not followed here becomes one."""

    origin: Expression
    notes: Notes

    def __new__(cls, number: int, origin: Expression, notes: Notes) -> TracedInt:
        made = super().__new__(cls, number)
        made.origin = origin
        made.notes = notes
        return made

    __hash__ = int.__hash__

    def __neg__(self) -> TracedInt:
        return TracedInt(-int(self), Arithmetic("-", 0, self.origin), self.notes)

    def __pos__(self) -> TracedInt:
        return self

    def __bool__(self) -> bool:
        return bool(self != 0)  # which notes a guard

    def __float__(self) -> float:
        return float(self._left())

    def __truediv__(self, other: float) -> float:
        return self._left() / other

    def __rtruediv__(self, other: float) -> float:
        return other / self._left()

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        return pow(self._left(), other, modulo)

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        return pow(other, self._left(), modulo)

    def _left(self) -> int:
        """The number as it leaves what is followed, which is noted."""
        self.notes.note(Guard(FLOAT, as_argument(self), None, True))
        return int(self)

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return (int, (int(self),))  # a copy is on its own: the pass that made this one is over


def as_argument(number: int) -> Argument:
    """An integer as data, with its origin where it has one."""
    return Size(int(number), number.origin) if isinstance(number, TracedInt) else number


def _arithmetic(
    symbol: Any, function: Callable[[Any, Any], Any], *, swapped: bool
) -> Callable[[TracedInt, object], Any]:
    def compute(self: TracedInt, other: object) -> Any:
        if isinstance(other, float):  # never `swapped`: see above
            return function(self._left(), other)
        if not isinstance(other, int) or isinstance(other, bool):
            return NotImplemented
        mine, theirs = self.origin, other.origin if isinstance(other, TracedInt) else int(other)
        left, right = (theirs, mine) if swapped else (mine, theirs)
        numbers = (int(other), int(self)) if swapped else (int(self), int(other))
        return TracedInt(function(*numbers), Arithmetic(symbol, left, right), self.notes)

    return compute


def _comparison(symbol: str, function: Callable[[int, int], bool]) -> Callable[[TracedInt, object], Any]:
    def compare(self: TracedInt, other: object) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        answer = function(int(self), int(other))
        self.notes.note(Guard(symbol, as_argument(self), as_argument(other), answer))
        return answer

    return compare


for _name, _symbol, _function in (
    ("add", "+", operator.add),
    ("sub", "-", operator.sub),
    ("mul", "*", operator.mul),
    ("floordiv", "//", operator.floordiv),
    ("mod", "%", operator.mod),
):
    setattr(TracedInt, f"__{_name}__", _arithmetic(_symbol, _function, swapped=False))
    setattr(TracedInt, f"__r{_name}__", _arithmetic(_symbol, _function, swapped=True))
for _name, _symbol, _compare in (
    ("eq", "==", operator.eq),
    ("ne", "!=", operator.ne),
    ("lt", "<", operator.lt),
    ("le", "<=", operator.le),
    ("gt", ">", operator.gt),
    ("ge", ">=", operator.ge),
):
    setattr(TracedInt, f"__{_name}__", _comparison(_symbol, _compare))
