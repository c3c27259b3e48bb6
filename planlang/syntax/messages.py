"""What a person reads where the text does not fit the grammar: the one place that words syntax errors."""

from __future__ import annotations

import re

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from planlang.diagnostics import codes
from planlang.diagnostics.finding import nearest, or_list
from planlang.source import Span
from planlang.syntax.chunks import Chunk
from planlang.syntax.fault import Fault
from planlang.syntax.hints import hint_for
from planlang.syntax.keywords import STYLE_WORDS

STATEMENT_WORDS = ("plan", "mesh", "extends", "drop", "let", "option", "when", "require", "expect", "override")
_SECOND_WORD = re.compile(r"(?P<word>\w+)[ \t]*(?P<call>\()?")
_DASHED = re.compile(r"(?:plan|let|option|mesh)[ \t]+([^\W\d]\w*(?:-\w+)+)")
_FIRST_WORDS = re.compile(r"(\w+)([ \t]+)([^\s:?(=]?)")

# How the terminals read in "expected ...": what is not named here is not worth naming.
_NAMED = {
    "COLON": "`:`",
    "EQUAL": "`=`",
    "RPAR": "`)`",
    "LPAR": "`(`",
    "RBRACE": "`}`",
    "MAP_OPEN": "`{`",
    "BLOCK_OPEN": "`{`",
    "COMMA": "`,`",
    "FOR": "`for`",
    "STRING": "a quoted string",
    "INT": "a number",
    "PATH": "a pattern",
    "NAME": "a name",
    "CONFIG": "`config.NAME`",
    "$END": "the end of the line",
}
_MOST_NAMED = 4


def syntax_fault(error: UnexpectedInput, text: str, chunk: Chunk) -> Fault:
    """The mistake behind a parse error in `chunk`."""
    if text.startswith("else", chunk.start) and not text[chunk.start + 4 : chunk.start + 5].isidentifier():
        help_ = "put it on the line of the closing brace: `} else {`"
        return Fault(codes.UNEXPECTED_TEXT, Span(chunk.start, chunk.start + 4), "`else` follows no block", help=help_)
    special = _dashed_name(error, text, chunk) or _unknown_statement(error, text, chunk)
    if special:
        return special
    if isinstance(error, UnexpectedCharacters) and text.startswith('"', error.pos_in_stream or 0):
        return _characters(error, text)  # whatever bracket it leaves open is no mistake of its own
    brackets = _brackets(text, chunk)
    if brackets:
        return brackets
    hinted = _hinted(error, text, chunk)
    if hinted:
        return hinted
    if isinstance(error, UnexpectedCharacters):
        return _characters(error, text)
    if isinstance(error, UnexpectedToken):
        return _token(error, text, chunk)
    end = len(text[: chunk.end].rstrip())
    return Fault(codes.UNEXPECTED_TEXT, Span(end, end), "the statement is not complete")


def _position(error: UnexpectedInput, chunk: Chunk) -> int:
    at = error.token.start_pos if isinstance(error, UnexpectedToken) else error.pos_in_stream
    return chunk.end if at is None or at < 0 or _is_end(error) else at


def _is_end(error: UnexpectedInput) -> bool:
    return isinstance(error, UnexpectedToken) and error.token.type == "$END"


def _hinted(error: UnexpectedInput, text: str, chunk: Chunk) -> Fault | None:
    at = _position(error, chunk)
    if at >= chunk.end:
        return None
    hint = hint_for(text, chunk.start, at, _terminals(error))
    found = hint.there.match(text, at) if hint else None
    if hint is None or found is None:
        return None
    message = hint.message.replace("{}", found[0])
    return Fault(
        codes.UNEXPECTED_TEXT, Span(at, found.end()), message, help=hint.help.replace("{{", "{").replace("}}", "}")
    )


def _terminals(error: UnexpectedInput) -> set[str]:
    """The terminals that the grammar would take."""
    if isinstance(error, UnexpectedToken):
        return set(error.accepts or error.expected)
    return set(error.allowed or ()) if isinstance(error, UnexpectedCharacters) else set()


def _dashed_name(error: UnexpectedInput, text: str, chunk: Chunk) -> Fault | None:
    """A name with dashes in it: `plan my-plan for ...`."""
    found = _DASHED.match(text, chunk.start, chunk.end)
    if found is None or not found.start(1) < _position(error, chunk) <= found.end(1):
        return None
    better = found[1].replace("-", "_")
    message = f"`{found[1]}` is no name: there is a `-` in it"
    return Fault(codes.UNEXPECTED_TEXT, Span(*found.span(1)), message, help=f"write `{better}`")


def _unknown_statement(error: UnexpectedInput, text: str, chunk: Chunk) -> Fault | None:
    """A word that looks like the start of a statement and is none: `mseh tp`."""
    words = _FIRST_WORDS.match(text, chunk.start, chunk.end)
    if words is None or words[1] in (*STATEMENT_WORDS, "else") or (words[3] in ("", "#", '"') and words[3] != '"'):
        return None
    second = words.start(3)
    if _position(error, chunk) != second or re.compile(r"(?:is|except)\b").match(text, second):
        return None
    span = Span(chunk.start, words.end(1))
    near = nearest(words[1], STATEMENT_WORDS)
    following = _SECOND_WORD.match(text, second)
    if not near and following and ("_" in words[1] or following["call"] or following["word"] in STYLE_WORDS):
        message = f"`:` is missing behind the pattern `{words[1]}`"
        return Fault(codes.UNEXPECTED_TEXT, Span(words.end(1), second), message, help=f"write `{words[1]}: …`")
    otherwise = f"a statement begins with {or_list(STATEMENT_WORDS)}, or is a rule `PATTERN: STYLE`"
    help_ = f"did you mean {or_list(near)}?" if near else otherwise
    return Fault(codes.UNKNOWN_STATEMENT, span, f"no statement begins with `{words[1]}`", help=help_)


def _brackets(text: str, chunk: Chunk) -> Fault | None:
    if chunk.unclosed >= 0:
        char = text[chunk.unclosed]
        close = ")" if char == "(" else "}"
        span = Span(chunk.unclosed, chunk.unclosed + 1)
        message = f"`{char}` is never closed"
        return Fault(codes.UNCLOSED_BRACKET, span, message, label="opened here", help=f"add `{close}`")
    if chunk.surplus >= 0:
        char = text[chunk.surplus]
        span = Span(chunk.surplus, chunk.surplus + 1)
        return Fault(codes.UNCLOSED_BRACKET, span, f"`{char}` closes nothing", help="remove it, or open it before")
    return None


def _characters(error: UnexpectedCharacters, text: str) -> Fault:
    at = error.pos_in_stream or 0
    char = text[at : at + 1]
    span = Span(at, min(at + 1, len(text)))
    if char == '"':
        line_end = text.find("\n", at)
        span = Span(at, len(text) if line_end < 0 else line_end)
        return Fault(codes.UNCLOSED_STRING, span, "the string is not closed on its line", help='end it with `"`')
    if char == "{":
        return Fault(codes.BAD_PATTERN, span, "the braces of the pattern are not closed", help="add `}`")
    return Fault(codes.UNEXPECTED_TEXT, span, f"{_shown(char)} has no meaning here", help=_expected(_terminals(error)))


def _token(error: UnexpectedToken, text: str, chunk: Chunk) -> Fault:
    expected = _terminals(error)
    help_ = _expected(expected)
    if _is_end(error):
        end = chunk.start + len(_without_comment(text[chunk.start : chunk.end]).rstrip())
        if text.startswith("expect", chunk.start) and "IN" in expected:
            help_ = "expected `in=…` or `out=…`"
        return Fault(codes.UNEXPECTED_TEXT, Span(end, end), "the statement ends too early", help=help_)
    token: Token = error.token
    span = Span(token.start_pos or 0, token.end_pos or 0)
    if token.type == "_NL":
        return Fault(codes.UNEXPECTED_TEXT, Span(span.start, span.start), "the line ends too early", help=help_)
    if str(token) == "{" and "PATH" in expected:
        return Fault(codes.BAD_PATTERN, span, "the braces of the pattern are not closed", help="add `}`")
    shown = str(token) if len(token) <= 40 else f"{token[:37]}…"
    return Fault(codes.UNEXPECTED_TEXT, span, f"`{shown}` does not fit here", help=help_)


def _without_comment(text: str) -> str:
    last = text.rfind("\n") + 1
    return text[:last] + re.sub(r'^((?:[^"#]|"[^"]*+"?+)*+)#.*$', r"\1", text[last:])


def _expected(terminals: set[str]) -> str:
    if {"CUSTOM", "NAME"} <= terminals and "PATH" not in terminals and "INT" not in terminals:
        return "expected a style, such as `colwise`"
    if {"INT", "STRING", "TRUE"} <= terminals and "NAME" not in terminals:
        return "expected a number, a quoted string, `true` or `false`"
    named = sorted({_NAMED[name] for name in terminals if name in _NAMED})
    if not named or len(named) > _MOST_NAMED:
        return ""
    return f"expected {' or '.join(filter(None, [', '.join(named[:-1]), named[-1]]))}"


def _shown(char: str) -> str:
    return f"`{char}`" if char.isprintable() else f"the character U+{ord(char):04X}"
