"""Events and values of several passes as one record each: what differs in them must be a size that follows a formula.

Records are nested lists. Wherever a number may stand, there is the number itself or `["number", plus, times, of_batch,
of_length]`, a formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from planlang.model.formulas import Formula, Inexpressible, Setting, fit
from planlang.model.graph import Arithmetic, Dim, Enter, Event, Guard, Leave, Op, Other, Ref, Size, Slice, Value

Json: TypeAlias = Any


class Block:
    """Numbers the values of one block.

    Attributes:
        base: the number of the first value that it makes.
        outside: the values that it takes from outside, in the order of their numbers in it.
    """

    def __init__(self, base: int) -> None:
        self.base = base
        self.outside: list[int] = []

    def place(self, value: int) -> int:
        """The number of a value inside the block."""
        if value >= self.base:
            return value - self.base
        if value not in self.outside:
            self.outside.append(value)
        return -1 - self.outside.index(value)


class Encoder:
    """Writes records of what happened at given settings."""

    def __init__(self, settings: Sequence[Setting]) -> None:
        self._settings = settings

    def value(self, values: Sequence[Value]) -> Json:
        """The record of a value."""
        first = values[0]
        about = same([(value.kind, value.origin, value.grad, value.names) for value in values])
        shapes = parallel([value.shape for value in values])
        return [[self._number(sizes) for sizes in shapes], about[0], about[1], first.grad, list(first.names)]

    def event(self, events: Sequence[Any], block: Block) -> Json:
        """The record of an event.

        Raises:
            Inexpressible: the events differ in more than sizes.
        """

        def arguments(pick: str) -> Json:
            return [self._argument(each, block) for each in parallel([getattr(event, pick) for event in events])]

        def keywords() -> Json:
            named = parallel([event.kwargs for event in events])
            return [[same([name for name, _ in each]), self._argument([v for _, v in each], block)] for each in named]

        match events[0]:
            case Op():
                name = same([op.name for op in events])
                outs = [block.place(value) for value in same([op.outs for op in events])]
                mutates = [block.place(value) for value in same([op.mutates for op in events])]
                return ["op", name, arguments("args"), keywords(), outs, mutates]
            case Enter():
                return ["enter", same([e.module for e in events]), arguments("args"), keywords()]
            case Leave():
                return ["leave", same([e.module for e in events]), arguments("outs")]
            case Guard():
                op, answer = same([(guard.op, guard.answer) for guard in events])
                left = self._argument([guard.left for guard in events], block)
                return ["guard", op, left, self._argument([guard.right for guard in events], block), answer]
        raise AssertionError(events[0])

    def _argument(self, xs: Sequence[Any], block: Block) -> Json:
        match xs[0]:
            case Ref():
                return ["ref", block.place(same(xs).value)]
            case Size():
                _alike(xs)
                return ["size", self._number([x.number for x in xs]), self._origin([x.origin for x in xs], block)]
            case Slice():
                _alike(xs)
                parts = ([getattr(x, part) for x in xs] for part in ("start", "stop", "step"))
                return ["slice", *(self._argument(part, block) for part in parts)]
            case Other():
                return ["other", same(xs).text]
            case tuple():
                return ["tuple", *(self._argument(each, block) for each in parallel(xs))]
            case bool() | str() | None:
                return same(xs)
            case int():
                return self._number(xs)
            case float():
                number = same([repr(x) for x in xs])
                return float(number) if math.isfinite(float(number)) else ["float", number]
        raise AssertionError(xs[0])

    def _origin(self, xs: Sequence[Any], block: Block) -> Json:
        match xs[0]:
            case Dim():
                found = same(xs)
                return ["dim", block.place(found.value), found.dim]
            case Arithmetic():
                op = same([x.op if isinstance(x, Arithmetic) else None for x in xs])
                return [op, self._origin([x.left for x in xs], block), self._origin([x.right for x in xs], block)]
        return self._number(xs)

    def _number(self, numbers: Sequence[int]) -> Json:
        if any(type(number) is not int for number in numbers):
            raise Inexpressible(f"{_texts(numbers)} are not all integers")
        found = fit(numbers, self._settings)
        if isinstance(found, Formula):
            return ["number", found.plus, found.times, found.of_batch, found.of_length]
        return found


def parallel(sequences: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """What stands at one place in all sequences, place by place.

    Raises:
        Inexpressible: they differ in length, or in the kind of event at one place.
    """
    if len({len(sequence) for sequence in sequences}) != 1:
        raise Inexpressible("the code did more in one pass than in another")
    for xs in zip(*sequences, strict=True):
        if isinstance(xs[0], Event):
            _alike(xs)
        yield xs


def _alike(xs: Sequence[object]) -> None:
    if len(set(map(type, xs))) != 1:
        raise Inexpressible(f"the code did different things: {_texts(xs)}")


def same(xs: Sequence[Any]) -> Any:
    """The one thing that all of these are.

    Raises:
        Inexpressible: they differ.
    """
    if any(x != xs[0] or type(x) is not type(xs[0]) for x in xs):
        raise Inexpressible(f"{_texts(xs)} differ")
    return xs[0]


def _texts(xs: Sequence[object]) -> str:
    return " and ".join(dict.fromkeys(str(x)[:80] for x in xs))
