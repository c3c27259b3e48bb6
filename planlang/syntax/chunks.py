"""Cuts a text into the slices that hold one statement each, so that a mistake in one costs no other.

It knows only quotes, comments, brackets and newlines. What a statement is, the grammar says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from planlang.source import Span

_MARKS = re.compile(r'"[^"\n]*"?|#[^\n]*|[(){}]|\n')
_BLANK = re.compile(r"(?:[ \t\r\f\n]+|#[^\n]*)*")
_KEYWORD = r"(?:plan|mesh|extends|drop|let|option|when|require|expect|override)[ \t]"
_RULE = r'(?:[\w*."]|\{[^{}\n]*\})++[^:\n(]*+:'  # possessive: a long line costs no more than its length
_LIKE_A_STATEMENT = re.compile(rf"^([ \t]*)(?:{_KEYWORD}|{_RULE}|\}})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A slice of a text.

    Attributes:
        unclosed: where a bracket opens in it that it does not close, the innermost; -1 where there is none.
        surplus: where a bracket closes in it that it does not open; -1 where there is none.
        depth: how deep its brackets are nested.
    """

    start: int
    end: int
    unclosed: int = -1
    surplus: int = -1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: its text without `#`, and whether it has its line to itself."""

    span: Span
    text: str
    own_line: bool


def chunks(text: str, start: int, end: int) -> Iterator[Chunk]:
    """The statements between two offsets; blank lines and comments between them belong to none."""
    opened: list[int] = []
    depth, surplus = 0, -1
    begin = _BLANK.match(text, start, end).end()  # type: ignore[union-attr]
    for mark in _MARKS.finditer(text, begin, end):
        char = mark[0]
        if char == "(" or char == "{":
            opened.append(mark.start())
            depth = max(depth, len(opened))
        elif char == ")" or char == "}":
            if char == "}":  # a block ends whatever was left open in it
                while opened and text[opened[-1]] == "(":
                    opened.pop()
            if opened and (text[opened[-1]] == "(") == (char == ")"):
                opened.pop()
            else:
                surplus = mark.start()
        elif char == "\n" and not opened and mark.start() >= begin:
            yield Chunk(begin, mark.start(), -1, surplus, depth)
            depth, surplus = 0, -1
            begin = _BLANK.match(text, mark.end(), end).end()  # type: ignore[union-attr]
    if begin < end:
        yield Chunk(begin, end, opened[-1] if opened else -1, surplus, depth)


def next_statement(text: str, chunk: Chunk) -> int:
    """Where the next statement seems to begin in a chunk that swallowed the rest of the text; its end if nowhere.

    It is the first later line that looks like a statement and is indented no further than the chunk's first line.
    """
    line = text.rfind("\n", 0, chunk.start) + 1
    indent = len(text[line : chunk.start].expandtabs())
    for found in _LIKE_A_STATEMENT.finditer(text, chunk.start, chunk.end):
        if found.start() > chunk.start and len(found[1].expandtabs()) <= indent:
            return found.start()
    return chunk.end


def comments(text: str) -> list[Comment]:
    """Every comment of a text, in order."""
    found = []
    for mark in _MARKS.finditer(text):
        if mark[0][0] == "#":
            line = text.rfind("\n", 0, mark.start()) + 1
            own_line = not text[line : mark.start()].strip()
            content = mark[0][1:].rstrip()
            content = content[1:] if content.startswith(" ") else content
            found.append(Comment(Span(mark.start(), mark.start() + len(mark[0].rstrip())), content, own_line))
    return found
