"""Takes a path token apart: `*.self_attn.{q,k,v}_proj` into segments and their parts."""

from __future__ import annotations

import re

from planlang.diagnostics import codes
from planlang.source import Span
from planlang.syntax.fault import Fault
from planlang.syntax.nodes import AnyDepth, Choice, Literal, Part, Path, Range, Segment, Star

MOST_CHARACTERS = 10_000
MOST_IN_RANGE = 100_000
_MOST_DIGITS = 9
_RANGE = re.compile(r"(-?[0-9]+)\.\.(-?[0-9]+)(?:\.\.([0-9]+))?")
_PIECE = re.compile(r'(?P<star>\*)|"(?P<quoted>[^"]*)"|(?P<open>\{)|(?P<text>\w+)')
_DOT = re.compile(r"\.")


def parse_path(text: str, at: int) -> Path:
    """The path that `text` writes; `at` is its offset in the source.

    Raises:
        Fault: where it is not well formed.
    """
    span = Span(at, at + len(text))
    if len(text) > MOST_CHARACTERS:
        message = f"the pattern has {len(text)} characters, and {MOST_CHARACTERS} are the most"
        raise Fault(codes.BAD_PATTERN, span, message, help="write several rules")
    if '"' not in text and "{" not in text:
        pieces = [(piece, start) for piece, start in _plain_split(text, at)]
    else:
        pieces = _split(text, at, ".")
    segments = tuple(
        _segment(piece, start, first=i == 0 and len(pieces) > 1) for i, (piece, start) in enumerate(pieces)
    )
    return Path(segments=segments, span=span)


def _plain_split(text: str, at: int) -> list[tuple[str, int]]:
    pieces = []
    for piece in text.split("."):
        pieces.append((piece, at))
        at += len(piece) + 1
    return pieces


def _split(text: str, at: int, mark: str) -> list[tuple[str, int]]:
    """`text` cut at every `mark` that stands in no braces and no quotes, with the offset of each piece."""
    pieces, begin, level, quoted = [], 0, 0, False
    for i, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char == "{":
            level += 1
        elif char == "}":
            level -= 1
        elif char == mark and level == 0:
            pieces.append((text[begin:i], at + begin))
            begin = i + 1
    pieces.append((text[begin:], at + begin))
    return pieces


def _segment(text: str, at: int, *, first: bool) -> Segment | AnyDepth:
    span = Span(at, at + len(text))
    if text == "**" or (first and text == "*"):
        return AnyDepth(span=span)
    if not text:
        dot = at if first else at - 1
        raise Fault(codes.BAD_PATTERN, Span(dot, dot + 1), "a segment of the pattern is empty", help="remove one dot")
    if text.isalnum():
        return Segment(parts=(Literal(text=text, span=span),), span=span)
    return Segment(parts=_parts(text, at), span=span)


def _parts(text: str, at: int) -> tuple[Part, ...]:
    parts: list[Part] = []
    i = 0
    while i < len(text):
        piece = _PIECE.match(text, i)
        if piece is None:
            span = Span(at + i, at + i + 1)
            if text[i] == ".":
                message = "a dot stands inside braces, where only names of one segment may stand"
                raise Fault(
                    codes.BAD_PATTERN, span, message, help="write one rule for each path, or `{0..3}` for numbers"
                )
            raise Fault(codes.BAD_PATTERN, span, f"`{text[i]}` may not stand in a pattern", help='quote the name: "…"')
        span = Span(at + i, at + piece.end())
        match piece.lastgroup:
            case "star":
                if parts and isinstance(parts[-1], Star):
                    message = "`**` must be a whole segment"
                    raise Fault(
                        codes.BAD_PATTERN, Span(at + i - 1, at + i + 1), message, help="write `*` inside a segment"
                    )
                parts.append(Star(span=span))
            case "open":
                end = _closing(text, i)
                parts.append(_choice(text[i + 1 : end], at + i + 1, Span(at + i, at + end + 1)))
                i = end + 1
                continue
            case _:
                name = piece["text"] if piece["quoted"] is None else piece["quoted"]
                if "." in name:
                    message = "a quoted name holds a dot, and a module's name cannot"
                    raise Fault(codes.BAD_PATTERN, span, message, help="quote each segment by itself")
                if parts and isinstance(parts[-1], Literal):
                    parts[-1] = Literal(text=parts[-1].text + name, span=parts[-1].span.to(span))
                else:
                    parts.append(Literal(text=name, span=span))
        i = piece.end()
    return tuple(parts)


def _closing(text: str, opening: int) -> int:
    level, quoted = 0, False
    for i in range(opening, len(text)):
        if text[i] == '"':
            quoted = not quoted
        elif not quoted:
            level += (text[i] == "{") - (text[i] == "}")
            if level == 0:
                return i
    raise AssertionError("the token has balanced braces")


def _choice(text: str, at: int, span: Span) -> Choice:
    options = []
    for raw, start in _split(text, at, ","):
        option = raw.strip(" \t")
        begin = start + len(raw) - len(raw.lstrip(" \t"))
        numbers = _RANGE.fullmatch(option)
        options.append((_range(numbers, begin),) if numbers else _parts(option, begin))
    return Choice(options=tuple(options), span=span)


def _range(numbers: re.Match[str], at: int) -> Range:
    span = Span(at, at + len(numbers[0]))
    if any(len(digits) > _MOST_DIGITS for digits in re.findall(r"[0-9]+", numbers[0])):
        message = f"a number in `{_short(numbers[0])}` has more than {_MOST_DIGITS} digits"
        raise Fault(codes.RANGE_TOO_LARGE, span, message, help="name the layers that the model has")
    first, last, step = int(numbers[1]), int(numbers[2]), int(numbers[3] or 1)
    if step == 0:
        raise Fault(codes.BAD_PATTERN, span, "the step of a range is 0", help="write a step of 1 or more, or none")
    if (first < 0) == (last < 0):
        if last < first:
            message = f"the range `{numbers[0]}` is empty: {first} is larger than {last}"
            raise Fault(codes.BAD_PATTERN, span, message, help=f"write `{{{last}..{first}}}`")
        count = (last - first) // step + 1
        if count > MOST_IN_RANGE:
            message = f"`{numbers[0]}` holds {count} numbers, more than the {MOST_IN_RANGE} that are allowed"
            raise Fault(codes.RANGE_TOO_LARGE, span, message, help="name the layers that the model has")
    return Range(first=first, last=last, step=step, span=span)


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:10]}…{text[-10:]}"
