"""What one segment of a pattern means: which names it matches, which layer numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import assert_never

from planlang.indices import IndexSet
from planlang.syntax.nodes import Choice, Literal, Part, Range, Segment, Star
from planlang.syntax.paths import MOST_IN_RANGE


class Uncounted(Exception):
    """A segment that needs the number of layers, which a class of models does not have."""

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.part = part


class TooMany(Exception):
    """A segment that stands for more numbers than can be listed."""

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.segment = segment


def matches(segment: Segment, name: str, length: int | None = None) -> bool:
    """Whether a module name, one segment of a path, is matched.

    Args:
        segment: the pattern.
        name: the name, without dots.
        length: how long the module list is whose child is named; for negative numbers.

    Raises:
        Uncounted: where the segment needs `length` and there is none.
    """
    if len(segment.parts) == 1 and isinstance(segment.parts[0], Literal):
        return segment.parts[0].text == name
    return len(name) in _ends(segment.parts, name, 0, length)


def indices(segment: Segment, among: IndexSet, length: int | None = None) -> IndexSet:
    """The layer numbers of `among` that are matched.

    Raises:
        Uncounted: where that needs the number of layers and `among` is open.
        TooMany: where the numbers cannot be listed.
    """
    if segment.parts == (Star(),):
        return among
    if among.finite:
        return IndexSet.of(number for number in among if matches(segment, str(number), length))
    names = list(islice(_names(segment.parts), MOST_IN_RANGE + 1))
    if len(names) > MOST_IN_RANGE:
        raise TooMany(segment)
    return IndexSet.of(int(name) for name in names if _is_index(name)) & among


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdigit() and (name == "0" or name[0] != "0") and len(name) < MOST_DIGITS


MOST_DIGITS = 10


def numbers(part: Range, length: int | None) -> range:
    """The numbers of a range, negative ends counted from `length`.

    Raises:
        Uncounted: where an end is negative and there is no `length`.
    """
    if (part.first < 0 or part.last < 0) and length is None:
        raise Uncounted(part)
    first = part.first + (length or 0) if part.first < 0 else part.first
    last = part.last + (length or 0) if part.last < 0 else part.last
    return range(max(first, first % part.step if first < 0 else first), last + 1, part.step)


def _ends(parts: tuple[Part, ...], name: str, start: int, length: int | None) -> set[int]:
    """Where in `name` a match of all `parts` that begins at `start` can end."""
    reached = {start}
    for part in parts:
        reached = {end for at in reached for end in _part_ends(part, name, at, length)}
        if not reached:
            break
    return reached


def _part_ends(part: Part, name: str, at: int, length: int | None) -> set[int]:
    match part:
        case Literal():
            return {at + len(part.text)} if name.startswith(part.text, at) else set()
        case Star():
            return set(range(at, len(name) + 1))
        case Choice():
            return {end for option in part.options for end in _ends(option, name, at, length)}
        case Range():
            among = numbers(part, length)
            ends = set()
            end = at
            while end < len(name) and name[end] in "0123456789" and end - at < MOST_DIGITS:
                end += 1
                if _is_index(name[at:end]) and int(name[at:end]) in among:
                    ends.add(end)
            return ends
        case _:
            assert_never(part)


def _names(parts: tuple[Part, ...]) -> Iterator[str]:
    """Every name that parts without `*` match."""
    for combination in product(*map(_part_names, parts)):
        yield "".join(combination)


def _part_names(part: Part) -> list[str]:
    match part:
        case Literal():
            return [part.text]
        case Star():
            raise Uncounted(part)
        case Choice():
            return list(islice((name for option in part.options for name in _names(option)), MOST_IN_RANGE + 1))
        case Range():
            return [str(number) for number in numbers(part, None)]
        case _:
            assert_never(part)
