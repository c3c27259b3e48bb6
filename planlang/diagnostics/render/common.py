"""What several renderers need: places that lie inside their text, and text that a terminal shows as it is meant.

A plan may come from a stranger, and so may whatever a message quotes. Everything that a terminal would act on or hide
(escape sequences, bidirectional overrides, zero-width and unusual spaces) is therefore shown by its escape.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from planlang.diagnostics.finding import Finding
from planlang.source import Place, Span

Paint: TypeAlias = Callable[[str, str], str]
"""Colours a text by its role: a severity, or `help`, `related`, `strong`, `gutter`."""

_TAB = "    "

_COLORS = {
    "error": "red",
    "warning": "yellow",
    "note": "cyan",
    "help": "green",
    "related": "blue",
    "gutter": "blue",
    "strong": None,
}


def inside(place: Place) -> Place:
    """`place` cut to what its text holds, so that a wrong span costs an underline and not a traceback."""
    size = len(place.source.text)
    start = min(max(place.span.start, 0), size)
    return Place(place.source, Span(start, min(max(place.span.end, start), size)))


def lines(text: str) -> list[str]:
    """The lines of a message, each safe to print."""
    return [shown(line) for line in text.replace("\r\n", "\n").split("\n")]


def one_line(text: str) -> str:
    """A message as one safe line."""
    return " ".join(filter(None, map(str.strip, lines(text))))


def prose(finding: Finding) -> str:
    """Message, notes and help as lines of plain text, for formats that have one field for them all."""
    parts = [finding.message, *(f"note: {note}" for note in finding.notes)]
    if finding.help:
        parts.append(f"help: {finding.help}")
    return "\n".join(parts)


def shown(text: str) -> str:
    r"""`text` with each character that does not print replaced by its escape, as `\x1b` or `\u202e`."""
    # `isprintable` refuses controls, formats, surrogates, unassigned characters and every space but the plain one.
    return text if text.isprintable() else "".join(map(_escaped, text))


def cell(char: str) -> str:
    """What stands in a frame for one character of a source line."""
    # A fixed width, since behind a gutter the tab stops of the terminal are not those of the file.
    return _TAB if char == "\t" else _escaped(char)


def width(text: str) -> int:
    """How many columns a safe text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def painter(color: bool) -> Paint:
    """What colours the parts of a finding, or leaves them alone."""
    if not color:
        return lambda text, role: text
    # Late, since the Python functions print findings without colour and need no click for it.
    import click

    return lambda text, role: click.style(text, fg=_COLORS[role], bold=True) if text else ""


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0  # it is drawn over the character before it
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
