"""Texts and places in them.

A `Span` is a pair of character offsets; a `Place` is a span in one `Source`. Lines and columns are worked out on
demand, here and nowhere else: both count from 1, and a column counts characters.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


def printable(name: str) -> str:
    """A name as a message may show it: on one line, and nothing in it that a terminal would act on."""
    return name if name.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open character offsets ``[start, end)`` into one text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.start, other.end)


@dataclass(frozen=True, eq=False)
class Source:
    """A named text: what a finding points into.

    Attributes:
        name: how a person knows it: a path relative to where they stand, `<stdin>`, or `plan qwen` for a bundled plan.
        text: the whole text, with its own line ends.
        path: the file it was read from, where there is one; `extends` is relative to it.
    """

    name: str
    text: str
    path: Path | None = None

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line starts."""
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of `offset`."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of the 1-based line `number`, without its line end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def place(self, span: Span) -> Place:
        """`span` as a place in this text."""
        return Place(self, span)


@dataclass(frozen=True, slots=True)
class Place:
    """A span in a source."""

    source: Source
    span: Span

    @property
    def text(self) -> str:
        """The characters it covers."""
        return self.source.text[self.span.start : self.span.end]

    @property
    def start(self) -> tuple[int, int]:
        """Its first line and column, from 1."""
        return self.source.position(self.span.start)

    @property
    def end(self) -> tuple[int, int]:
        """The line and column just behind its last character, from 1."""
        return self.source.position(self.span.end)

    def __str__(self) -> str:
        line, column = self.start
        return f"{self.source.name}:{line}:{column}"
