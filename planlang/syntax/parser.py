"""Text to syntax tree, with one finding for each mistake.

A file without mistakes is parsed in one go. Otherwise each statement is parsed by itself, and where one does not
parse, the rest of the file still does: a block is opened and the statements in it are read one by one; a bracket left
open ends where the next statement seems to begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from lark import Lark, TextSlice, Token
from lark.exceptions import UnexpectedInput

from planlang import resources
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.source import Source, Span
from planlang.syntax.build import MOST_DEPTH, Builder, to_target
from planlang.syntax.chunks import Chunk, chunks, comments, next_statement
from planlang.syntax.fault import Fault
from planlang.syntax.messages import syntax_fault
from planlang.syntax.nodes import AnyStatement, Broken, Comments, File, Style, Target, When
from planlang.version import __version__

_WHEN = re.compile(r"(?:else[ \t]+)?when\b")
_BLOCK_OPEN = re.compile(r"\{[ \t\r]*(?:#[^\n]*)?\n")
_BLOCK_EDGE = re.compile(r'^[ \t]*(?P<close>\})|(?P<open>\{)[ \t\r]*(?:#[^\n]*)?$|#[^\n]*|"[^"\n]*"', re.MULTILINE)
_NO_BRACKETS = re.compile(r'"[^"\n]*"|#[^\n]*|[^(){}"#]+|["#]')
_NEXT_LINE_BRACE = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n)+[ \t]*\{")
_ELSE = re.compile(r"[ \t]*else\b[ \t]*")
_DECLARES = re.compile(r"(?:let|option)[ \t]+(\w+(?:-\w+)*)")


class _Newlines:
    """Drops newlines inside parentheses, maps and sets, where they do not count."""

    always_accept: ClassVar[tuple[str, ...]] = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        opened: list[str] = []
        for token in stream:
            match token.type:
                case "_NL" if opened and opened[-1] != "BLOCK_OPEN":
                    continue
                case "LPAR" | "MAP_OPEN" | "BLOCK_OPEN":
                    opened.append(token.type)
                case "RPAR" | "RBRACE" if opened:
                    opened.pop()
            yield token


@cache
def lark() -> Lark:
    """The parser, built once a process; its tables are kept in the user's cache directory."""
    folder = resources.cache_directory()
    return Lark(
        resources.grammar(),
        parser="lalr",
        lexer="contextual",
        start=["file", "statement", "when_head", "pattern", "style"],
        maybe_placeholders=False,
        propagate_positions=False,
        postlex=_Newlines(),
        transformer=Builder(),
        cache=str(folder / f"grammar-{__version__}.lark") if folder else False,
    )


def parse(source: Source) -> tuple[File, tuple[Finding, ...]]:
    """The syntax tree of a text and what is wrong with it; what could not be read is a `Broken` statement."""
    reader = _Reader(source)
    statements = reader.whole() or tuple(reader.statements(0, len(source.text)))
    if "#" in source.text:
        statements = _with_comments(statements, source)
    return File(statements=statements, span=Span(0, len(source.text))), tuple(reader.findings)


def parse_target(text: str) -> Target:
    """A pattern by itself, with or without `?`.

    Raises:
        Fault: it is not well formed.
    """
    return to_target(_alone(text, "pattern"))


def parse_style(text: str) -> Style:
    """A style by itself.

    Raises:
        Fault: it is not well formed.
    """
    style: Style = _alone(text, "style")
    return style


def _alone(text: str, start: str) -> Any:
    chunk = next(chunks(text, 0, len(text)), Chunk(0, 0))
    if chunk.depth > MOST_DEPTH:
        raise Fault(codes.TOO_DEEP, Span(0, len(text)), f"brackets are nested more than {MOST_DEPTH} deep")
    try:
        return lark().parse(text, start=start)
    except UnexpectedInput as error:
        raise syntax_fault(error, text, chunk) from None


class _Uncounted(str):
    """A text whose lines Lark does not count: it would count all that stand above, for each statement again."""

    def count(self, *_: object) -> int:
        return 0


class _Reader:
    """One pass over one text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.uncounted = _Uncounted(source.text)
        self.findings: list[Finding] = []
        self.level = 0

    def whole(self) -> tuple[AnyStatement, ...]:
        """All statements, or none if there is any mistake."""
        try:
            if not _flat(self.text):
                return ()
            file: File = lark().parse(self.text, start="file")  # type: ignore[assignment]
        except (Fault, UnexpectedInput):
            return ()
        return file.statements

    def statements(self, start: int, end: int) -> Iterator[AnyStatement]:
        """The statements between two offsets, each parsed by itself."""
        while start < end:
            behind = end
            for chunk in chunks(self.text, start, end):
                try:
                    yield self._parse(chunk, "statement")
                except Fault as fault:
                    self._report(fault)
                    yield self._broken(chunk)
                except UnexpectedInput as error:
                    broken, behind = self._recover(chunk, error, end)
                    yield from broken
                    if behind != chunk.end:
                        break
                    behind = end
            start = behind

    def _parse(self, chunk: Chunk, start: str) -> Any:
        if chunk.depth > MOST_DEPTH:
            span = Span(chunk.start, min(chunk.end, chunk.start + 40))
            message = f"brackets are nested {chunk.depth} deep, and {MOST_DEPTH} is the most"
            raise Fault(codes.TOO_DEEP, span, message, help="write it flatter")
        return lark().parse(TextSlice(self.uncounted, chunk.start, chunk.end), start=start)

    def _recover(self, chunk: Chunk, error: UnexpectedInput, end: int) -> tuple[list[Broken], int]:
        """What stands for a chunk that does not parse, and where to go on: its end, or earlier.

        Where the brace of a block stands below its `when`, it is later, up to `end`.
        """
        opening = _BLOCK_OPEN.search(self.text, chunk.start, chunk.end)
        if opening and _WHEN.match(self.text, chunk.start):
            return self._block(chunk, opening.start())
        following = next_statement(self.text, chunk) if chunk.unclosed >= 0 else chunk.end
        if following < chunk.end:
            chunk = next(chunks(self.text, chunk.start, following))
        elif _WHEN.match(self.text, chunk.start) and (brace := _NEXT_LINE_BRACE.match(self.text, chunk.end, end)):
            message = "the `{` of a block stands on a line of its own"
            span = Span(brace.end() - 1, brace.end())
            self._report(Fault(codes.UNEXPECTED_TEXT, span, message, help="put it on the line of its `when`"))
            return self._block(Chunk(chunk.start, end), span.start, known=True)
        self._report(syntax_fault(error, self.text, chunk))
        return [self._broken(chunk)], following

    def _block(self, chunk: Chunk, opening: int, *, known: bool = False) -> tuple[list[Broken], int]:
        """A `when` that does not parse as a whole: its conditions and the statements of its blocks by themselves.

        `known` says that what is wrong with the block itself is reported already.
        """
        if self.level == MOST_DEPTH:
            message = f"blocks are nested more than {MOST_DEPTH} deep"
            self._report(Fault(codes.TOO_DEEP, Span(chunk.start, opening + 1), message, help="write it flatter"))
            return [self._broken(chunk)], chunk.end
        found = len(self.findings)
        self.level += 1
        inner, behind = self._branches(chunk, opening)
        self.level -= 1
        if not known and len(self.findings) == found:  # nothing in it is wrong, so how its parts stand together is
            message = "the block is not written as blocks are"
            self._report(
                Fault(
                    codes.UNEXPECTED_TEXT, Span(chunk.start, opening + 1), message, help="`when … {`, `} else {`, `}`"
                )
            )
        return [Broken(span=Span(chunk.start, behind), inside=tuple(inner))], behind

    def _branches(self, chunk: Chunk, opening: int) -> tuple[list[AnyStatement], int]:
        """The statements of a block and of each `else` behind it, and where the last of them ends."""
        found: list[AnyStatement] = []
        begin, end = chunk.start, chunk.end
        while True:
            word = _WHEN.match(self.text, begin, opening)
            if word:
                self._condition(word.end() - len("when"), opening)
            closing = self._closing(opening, end)
            found += self.statements(opening + 1, closing if closing >= 0 else end)
            if closing < 0:
                span = Span(opening, opening + 1)
                self._report(Fault(codes.UNCLOSED_BRACKET, span, "the block is never closed", help="add `}`"))
                return found, end
            otherwise = _ELSE.match(self.text, closing + 1, end)
            following = _BLOCK_OPEN.search(self.text, otherwise.end(), end) if otherwise else None
            if otherwise is None or following is None:
                return found, self._behind_block(closing + 1, end)
            begin, opening = otherwise.end(), following.start()
            if begin != opening and not _WHEN.match(self.text, begin, opening):
                span = Span(begin, begin + len(self.text[begin:opening].rstrip()))
                message = f"`{self.text[span.start : span.end][:40]}` does not fit behind `else`"
                self._report(Fault(codes.UNEXPECTED_TEXT, span, message, help="write `} else {` or `} else when … {`"))

    def _condition(self, begin: int, opening: int) -> None:
        """Reports what is wrong with the head of a block, up to its brace."""
        head = next(chunks(self.text, begin, begin + len(self.text[begin:opening].rstrip())))
        try:
            self._parse(head, "when_head")
        except Fault as fault:
            self._report(fault)
        except UnexpectedInput as error:
            self._report(syntax_fault(error, self.text, head))

    def _behind_block(self, start: int, end: int) -> int:
        """Reports what stands on the line behind a closing brace; where that line ends."""
        line_end = self.text.find("\n", start, end)
        line_end = end if line_end < 0 else line_end
        for chunk in chunks(self.text, start, line_end):
            span = Span(chunk.start, chunk.end)
            message = f"`{self.text[chunk.start : chunk.end][:40]}` stands behind a block"
            self._report(Fault(codes.UNEXPECTED_TEXT, span, message, help="put it on a line of its own"))
        return line_end

    def _closing(self, opening: int, end: int) -> int:
        """Where the block that opens at `opening` seems to close; -1 where it does not.

        Only braces at the ends and beginnings of lines count: one that is missing within a line ends no block.
        """
        level = 0
        for mark in _BLOCK_EDGE.finditer(self.text, opening, end):
            if mark["close"]:
                level -= 1
                if level == 0:
                    return mark.end("close") - 1
            if mark["open"]:
                level += 1
        return -1

    def _broken(self, chunk: Chunk) -> Broken:
        span = Span(chunk.start, chunk.end)
        return Broken(span=span, declares=_declares(self.text, span))

    def _report(self, fault: Fault) -> None:
        place = self.source.place(fault.span)
        self.findings.append(
            Finding(code=fault.code, message=fault.message, place=place, label=fault.label, help=fault.help)
        )


def _flat(text: str) -> bool:
    """Whether all brackets close and none are nested too deep; a round takes the innermost pairs away."""
    brackets = _NO_BRACKETS.sub("", text)
    for _ in range(MOST_DEPTH):
        if not brackets:
            break
        brackets = brackets.replace("()", "").replace("{}", "")
    return not brackets


def _declares(text: str, span: Span) -> str:
    found = _DECLARES.match(text, span.start, span.end)
    return found[1].replace("-", "_") if found else ""  # the name that it is told to be


def _with_comments(statements: tuple[AnyStatement, ...], source: Source) -> tuple[AnyStatement, ...]:
    """The statements with the comment lines right above them and the comment behind them."""
    own: dict[int, str] = {}
    behind: dict[int, str] = {}
    for comment in comments(source.text):
        line, _ = source.position(comment.span.start)
        (own if comment.own_line else behind)[line] = comment.text

    def attach(statement: AnyStatement) -> AnyStatement:
        first, _ = source.position(statement.span.start)
        last, _ = source.position(max(statement.span.end - 1, 0))
        above: list[str] = []
        line = first - 1
        while line in own:
            above.append(own[line])
            line -= 1
        above.reverse()
        if isinstance(statement, When):
            then, otherwise = tuple(map(attach, statement.then)), tuple(map(attach, statement.otherwise))
            statement = replace(statement, then=then, otherwise=otherwise)
        found = Comments(above=tuple(above), behind=behind.get(last, ""))
        return replace(statement, comments=found) if found.above or found.behind else statement

    return tuple(map(attach, statements))
