"""The frame of source lines that the full rendering draws, with the marks under them.

A mark may cover several lines; on each line it is one stroke. Lengths here are of two kinds: an *index* counts the
characters of a line, a *column* counts the columns of a terminal, where a tab takes four, an ideograph two and an
accent none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from planlang.diagnostics.render.common import Paint, cell, inside, one_line, width
from planlang.source import Place, Source

ELLIPSIS = "..."

LINE_WIDTH = 120
"""The columns that a source line may take; a longer one is cut on both sides of what is marked."""

LEAD = 40
"""The columns kept before the mark on a line that is cut."""

WHOLE_LINES = 3
"""A mark over more lines than this shows only its first and its last."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place to underline.

    Attributes:
        place: what to underline.
        text: what to write behind the underline.
        role: how to colour it.
        sign: what to underline it with.
    """

    place: Place
    text: str
    role: str
    sign: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """The part of a mark on one line, as indices `[start, end)` into it."""

    number: int
    start: int
    end: int
    text: str
    mark: Mark


def strokes(mark: Mark) -> list[Stroke]:
    """One stroke for each line of the mark that is to be shown; the text stands on the last."""
    place = inside(mark.place)
    source, span = place.source, place.span
    first, column = source.position(span.start)
    # The last character and not the one behind it: a span up to a line end does not reach into the next line. An empty
    # span thereby covers the character it stands before.
    last, end = source.position(max(span.start, span.end - 1))
    if first == last:
        return [Stroke(first, column - 1, end, mark.text, mark)]
    result = [Stroke(first, column - 1, len(source.line(first)), "", mark)]
    between = range(first + 1, last) if last - first < WHOLE_LINES else ()
    for number in between:
        line = source.line(number)
        if line.strip():
            result.append(Stroke(number, _indent(line), len(line), "", mark))
    result.append(Stroke(last, min(_indent(source.line(last)), end - 1), end, mark.text, mark))
    return result


def frame(source: Source, marked: Iterable[Stroke], gutter: int, paint: Paint) -> Iterator[str]:
    """The marked lines of one source, in their order.

    Args:
        source: what the strokes lie in.
        marked: what to mark, in any order.
        gutter: how many columns the line numbers take.
        paint: what colours the parts.
    """
    bar = paint(" " * gutter + " |", "gutter")
    yield bar
    above = None
    for number, found in groupby(sorted(marked, key=_reading_order), key=lambda stroke: stroke.number):
        if above is not None and number == above + 2:
            # One line takes no more room than the dots that would stand for it.
            between = source.line(above + 1)
            yield _numbered(above + 1, _part(between, *_window(between, 0)), gutter, paint)
        elif above is not None and number > above + 2:
            yield paint(ELLIPSIS, "gutter")
        yield from _marked_line(number, source.line(number), found, gutter, paint)
        above = number


def _marked_line(number: int, line: str, found: Iterable[Stroke], gutter: int, paint: Paint) -> Iterator[str]:
    """A source line and its strokes; where it is cut, once more for each stroke that the cut left out."""
    bar = paint(" " * gutter + " |", "gutter")
    low, high = -1, -1
    for stroke in found:
        start, end = min(stroke.start, len(line)), min(stroke.end, len(line))
        if not low <= start <= end <= high:
            low, high = _window(line, start)
            yield _numbered(number, _part(line, low, high), gutter, paint)
        before = (len(ELLIPSIS) if low else 0) + _columns(line[low:start])
        under = max(1, _columns(line[start : min(end, high)]))
        text = one_line(stroke.text)
        drawn = stroke.mark.sign * under + (f" {text}" if text else "")
        yield f"{bar} {' ' * before}{paint(drawn, stroke.mark.role)}"


def _window(line: str, start: int) -> tuple[int, int]:
    """The indices `[low, high)` of what to show of a line marked at `start`: all of it where it fits."""
    low, _ = _reach(line, start, -1, LEAD)
    high, room = _reach(line, low, 1, LINE_WIDTH)
    # What is left at the right end goes to the left, so that a line which fits is never cut.
    low, _ = _reach(line, low, -1, room)
    return low, high


def _reach(line: str, at: int, step: int, room: int) -> tuple[int, int]:
    """How far one gets from `at` in `room` columns, and the columns left."""
    while 0 <= (index := at if step > 0 else at - 1) < len(line):
        # An accent counts too, or a line of nothing but accents would be shown whole.
        cost = max(1, width(cell(line[index])))
        if cost > room:
            break
        at, room = at + step, room - cost
    return at, room


def _part(line: str, low: int, high: int) -> str:
    text = "".join(map(cell, line[low:high]))
    return f"{ELLIPSIS if low else ''}{text}{ELLIPSIS if high < len(line) else ''}"


def _numbered(number: int, text: str, gutter: int, paint: Paint) -> str:
    return f"{paint(f'{number:>{gutter}} |', 'gutter')} {text}".rstrip(" ")


def _columns(line: str) -> int:
    return sum(width(cell(char)) for char in line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _reading_order(stroke: Stroke) -> tuple[int, int]:
    return stroke.number, stroke.start
