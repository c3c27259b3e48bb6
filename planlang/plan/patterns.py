"""What one segment of a pattern means: which names it matches, which layer numbers."""

from __future__ import annotations

from typing import assert_never

from planlang.indices import NONE, IndexSet
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
    if _is_everything(segment.parts):
        return among
    if among.finite:
        return IndexSet.of(number for number in among if matches(segment, str(number), length))
    if not _has_numbers(segment.parts):
        return NONE
    return IndexSet.of(int(name) for name in _names(segment, segment.parts) if _is_index(name)) & among


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


def _is_everything(parts: tuple[Part, ...]) -> bool:
    """Whether every name is matched: by `*`, by `{*,x}`."""
    return any(map(_has_star, parts)) and all(map(_may_be_empty, parts))


def _has_star(part: Part) -> bool:
    return isinstance(part, Star) or (isinstance(part, Choice) and any(map(_is_everything, part.options)))


def _may_be_empty(part: Part) -> bool:
    match part:
        case Literal():
            return not part.text
        case Star():
            return True
        case Choice():
            return any(all(map(_may_be_empty, option)) for option in part.options)
        case Range():
            return False
        case _:
            assert_never(part)


def _has_numbers(parts: tuple[Part, ...]) -> bool:
    """Whether a name of digits alone can be matched at all: not by `*_proj`."""
    for part in parts:
        if isinstance(part, Literal) and not _is_digits(part.text):
            return False
        if isinstance(part, Choice) and not any(map(_has_numbers, part.options)):
            return False
    return True


def _is_digits(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit())


def _names(segment: Segment, parts: tuple[Part, ...]) -> set[str]:
    """The names that parts without `*` match, as far as they are made of few digits.

    Raises:
        TooMany: there are more than can be listed.
    """
    names = {""}
    for part in parts:
        endings = _part_names(segment, part)
        if len(names) * len(endings) > _MOST_COMBINED:
            raise TooMany(segment)
        names = {name + ending for name in names for ending in endings if len(name) + len(ending) < MOST_DIGITS}
        if len(names) > MOST_IN_RANGE:
            raise TooMany(segment)
    return names


_MOST_COMBINED = 10 * MOST_IN_RANGE


def _part_names(segment: Segment, part: Part) -> set[str]:
    match part:
        case Literal():
            return {part.text}
        case Star():
            raise Uncounted(part)
        case Choice():
            return {name for option in part.options if _has_numbers(option) for name in _names(segment, option)}
        case Range():
            return set(map(str, numbers(part, None)))
        case _:
            assert_never(part)
