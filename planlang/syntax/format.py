"""The formatter: one way to write each plan.

Styles of neighbouring rules start in one column, comments behind neighbouring lines too. A statement that is longer
than a line, or holds comments, is opened with one argument a line. It never changes meaning: `format_source` parses
what it made and compares trees and comments before anyone may write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from planlang.diagnostics.finding import Finding
from planlang.source import Source, Span
from planlang.syntax.chunks import Comment, comments
from planlang.syntax.nodes import (
    AnyStatement,
    Argument,
    Expect,
    File,
    Let,
    Map,
    MeshLine,
    Rule,
    Style,
    Tuple,
    Value,
    When,
)
from planlang.syntax.parser import parse
from planlang.syntax.printer import (
    argument_text,
    axis_text,
    condition_text,
    one_line,
    rule_head,
    style_head,
    style_text,
    target_text,
    value_text,
)

WIDTH = 100
INDENT = "    "
TAB_STOP = 5  # the column of styles moves in steps, so that a slightly longer pattern moves no other line


class FormatterError(AssertionError):
    """The formatter would have changed a plan: a mistake of ours."""


def format_source(source: Source) -> tuple[str | None, tuple[Finding, ...]]:
    """The text in its one form; `None` with findings where it does not parse.

    Raises:
        FormatterError: the result would not mean the same, or would lose a comment.
    """
    file, findings = parse(source)
    if findings:
        return None, findings
    text = _Formatter(source, file).text()
    again = Source(source.name, text)
    formatted, broken = parse(again)
    if broken or formatted != file:
        raise FormatterError("the formatted plan would not mean the same")
    if [c.text for c in comments(text)] != [c.text for c in comments(source.text)]:
        raise FormatterError("the formatted plan would lose or move a comment")
    return text, ()


@dataclass(slots=True)
class _Line:
    """A line to be: `head` and `tail` are aligned with those of its neighbours; `raw` lines stand as they are."""

    indent: int
    head: str
    tail: str = ""
    behind: str = ""
    raw: bool = False

    @property
    def blank(self) -> bool:
        return not self.head


class _Formatter:
    def __init__(self, source: Source, file: File) -> None:
        self.source = source
        self.file = file
        self.comments = comments(source.text)
        self.at = 0
        self.lines: list[_Line] = []

    def text(self) -> str:
        self._block(self.file.statements, len(self.source.text), 0)
        while self.lines and self.lines[-1].blank:
            self.lines.pop()
        return "".join(f"{line}\n" for line in _aligned(self.lines))

    # Comments are taken in order, each exactly once.

    def _take(self, before: int) -> Iterator[Comment]:
        while self.at < len(self.comments) and self.comments[self.at].span.start < before:
            self.at += 1
            yield self.comments[self.at - 1]

    def _before(self, end: int) -> list[Comment]:
        """The comments up to an offset that are not taken yet; they stay so."""
        coming = (self.comments[i] for i in range(self.at, len(self.comments)))
        return list(takewhile(lambda comment: comment.span.start < end, coming))

    def _behind(self, end: int) -> str:
        """The comment on the line on which `end` lies, if it is the next one."""
        if self.at < len(self.comments):
            comment = self.comments[self.at]
            between = self.source.text[end : comment.span.start]
            if comment.span.start >= end and "\n" not in between:
                self.at += 1
                return _comment_text(comment.text)
        return ""

    def _loose(self, before: int, level: int, previous: int) -> int:
        """Comment lines up to an offset; blank lines between them are kept, one at a time."""
        for comment in list(self._take(before)):
            self._gap(previous, comment.span.start)
            self.lines.append(_Line(level, _comment_text(comment.text), raw=True))
            previous = comment.span.end
        return previous

    def _gap(self, previous: int, start: int) -> None:
        """One blank line where the text has at least one."""
        between = self.source.text[previous:start]
        if (
            between.count("\n") > 1
            and self.lines
            and not self.lines[-1].blank
            and not self.lines[-1].head.endswith("{")
        ):
            self.lines.append(_Line(0, ""))

    def _block(self, statements: Sequence[AnyStatement], end: int, level: int, previous: int = 0) -> None:
        for statement in statements:
            previous = self._loose(statement.span.start, level, previous)
            self._gap(previous, statement.span.start)
            if isinstance(statement, When):
                self._when(statement, level)
            else:
                self._statement(statement, level)
            previous = statement.span.end
        self._loose(end, level, previous)

    def _when(self, when: When, level: int, start: str = "") -> None:
        """A block; `start` is what stands before `when` on its line."""
        # Comments inside the condition go above it: behind `else` that is into the block before.
        above = level + bool(start)
        self.lines += [_Line(above, _comment_text(c.text), raw=True) for c in self._take(when.then_block.start)]
        head = f"{start}when {condition_text(when.condition)} {{"
        self._braces(head, when.then, when.then_block, level)
        if when.else_block:
            self._braces("} else {", when.otherwise, when.else_block, level)
        elif when.otherwise:
            (following,) = when.otherwise
            assert isinstance(following, When)
            self._when(following, level, "} else ")
            return
        self.lines.append(_Line(level, "}", behind=self._behind(when.span.end), raw=True))

    def _braces(self, head: str, statements: Sequence[AnyStatement], block: Span, level: int) -> None:
        """A line that opens a block, and the statements in it; what follows closes it."""
        inside = block.start + 1
        self.lines.append(_Line(level, head, behind=self._behind(inside), raw=True))
        self._block(statements, block.end - 1, level + 1, inside)

    def _statement(self, statement: AnyStatement, level: int) -> None:
        end = statement.span.end
        inside = self._before(end)
        line = _Line(level, *_parts(statement))
        if not inside and len(INDENT * level + line.head + " " + line.tail) <= WIDTH:
            line.behind = self._behind(end)
            self.lines.append(line)
            return
        opened = _opened(statement)
        if opened is None:
            self.at += len(inside)
            self.lines += [_Line(level, _comment_text(comment.text), raw=True) for comment in inside]
            line.behind = self._behind(end)
            self.lines.append(line)
            return
        self._open(*opened, level)
        self.lines[-1].behind = self._behind(end)

    def _open(self, before: str, group: _Group, after: str, level: int) -> None:
        """A bracket with one item a line, each with its comments."""
        self.lines.append(_Line(level, before + group.opening, raw=True))
        for item in group.items:
            self.lines += [_Line(level + 1, _comment_text(c.text), raw=True) for c in self._take(item.span.start)]
            inside = bool(self._before(item.span.end))
            inner = _group(item.value) if item.value is not None else None
            if inner and (inside or len(INDENT * (level + 1) + item.text) >= WIDTH):
                self._open(item.before, inner, ",", level + 1)
            else:
                self.lines += [_Line(level + 1, _comment_text(c.text), raw=True) for c in self._take(item.span.end)]
                self.lines.append(_Line(level + 1, item.text + ",", raw=True))
            self.lines[-1].behind = self._behind(self._comma(item.span.end))
        self.lines += [_Line(level + 1, _comment_text(c.text), raw=True) for c in self._take(group.span.end)]
        self.lines.append(_Line(level, group.closing + after, raw=True))

    def _comma(self, end: int) -> int:
        """Behind the comma that follows an item, if it is on the item's line."""
        text = self.source.text
        at = end
        while at < len(text) and text[at] in " \t":
            at += 1
        return at + 1 if text[at : at + 1] == "," else end


@dataclass(frozen=True, slots=True)
class _Item:
    """One item between brackets: its text on one line, and the value in it that could be opened further."""

    span: Span
    text: str
    before: str = ""
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    opening: str
    items: tuple[_Item, ...]
    closing: str
    span: Span


def _comment_text(text: str) -> str:
    return f"# {text}".rstrip()


def _parts(statement: AnyStatement) -> tuple[str, str]:
    """A statement as what stands left and right of the column."""
    if isinstance(statement, Rule):
        return rule_head(statement), style_text(statement.style)
    return one_line(statement), ""


def _opened(statement: AnyStatement) -> tuple[str, _Group, str] | None:
    """A statement as what stands before its outermost bracket, the bracket, and what stands behind it."""
    match statement:
        case Rule(style=Style() as style) if style.arguments:
            return f"{rule_head(statement)} {style_head(style)}", _arguments(style), ""
        case Let(style=Style() as style) if style.arguments:
            return f"let {statement.name} = {style_head(style)}", _arguments(style), ""
        case MeshLine():
            items = tuple(_Item(axis.span, axis_text(axis)) for axis in statement.axes)
            return "mesh ", _Group("(", items, ")", statement.span), ""
        case Expect(claims=(*_, Argument() as last)) if _group(last.value):
            inner = _group(last.value)
            assert inner
            first = "".join(f"{argument_text(claim)}, " for claim in statement.claims[:-1])
            return f"expect {target_text(statement.target)}: {first}{last.name}=", inner, ""
        case _:
            return None


def _arguments(style: Style) -> _Group:
    items = tuple(_Item(a.span, argument_text(a), f"{a.name}=" if a.name else "", a.value) for a in style.arguments)
    return _Group("(", items, ")", style.span)


def _group(value: Value) -> _Group | None:
    """A value that is written between brackets."""
    match value:
        case Tuple() if value.values:
            items = tuple(_Item(item.span, value_text(item), "", item) for item in value.values)
            return _Group("(", items, ")", value.span)
        case Map() if value.entries:
            entries = tuple(
                _Item(e.span, f"{e.name}: {value_text(e.value)}", f"{e.name}: ", e.value) for e in value.entries
            )
            return _Group("{", entries, "}", value.span)
        case _:
            return None


def _aligned(lines: Sequence[_Line]) -> Iterator[str]:
    """The lines as text, neighbours aligned."""
    styles = _columns(lines, lambda line: len(line.head) if line.tail else None, TAB_STOP)
    texts = []
    for line, column in zip(lines, styles, strict=True):
        head = line.head.ljust(column) if line.tail else line.head
        texts.append((INDENT * line.indent + head + line.tail).rstrip())
    behind = _columns(lines, lambda line: 0, 1, texts)
    for line, text, column in zip(lines, texts, behind, strict=True):
        yield f"{text.ljust(column)}{line.behind}" if line.behind else text


def _columns(
    lines: Sequence[_Line], width: Callable[[_Line], int | None], step: int, texts: Sequence[str] | None = None
) -> list[int]:
    """For each line the column of its second part: two blanks behind the widest of its neighbours, in steps."""
    columns = [0] * len(lines)
    begin = 0
    for end in range(len(lines) + 1):
        if end < len(lines) and _joins(lines, begin, end, texts is not None):
            continue
        members = range(begin, end)
        if texts is None:
            widths = [w for i in members if (w := width(lines[i])) is not None]
        else:
            widths = [len(texts[i]) for i in members if lines[i].behind]
        column = -(-(max(widths, default=0) + 2) // step) * step
        for i in members:
            columns[i] = column
        begin = end
    return columns


def _joins(lines: Sequence[_Line], begin: int, at: int, behind: bool) -> bool:
    """Whether a line belongs to the run of lines that began at `begin`."""
    line = lines[at]
    if begin == at:
        return True
    if line.blank or lines[at - 1].blank or line.indent != lines[begin].indent:
        return False
    if behind:
        return bool(line.behind) and bool(lines[at - 1].behind)
    return not (line.raw and not line.head.startswith("#"))
