"""Python expressions with a layout: what fits on a line stays on it, as ruff and Black format it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

WIDTH = 88
INDENT = 4


@dataclass(frozen=True, slots=True)
class Group:
    """Items between brackets: a call, a dict, a tuple.

    Attributes:
        opening, closing: the brackets with what belongs to them, `ColwiseParallel(` and `)`.
        items: each with what stands before it, `input_layouts=`.
        collection: whether it is a display rather than a call: its items never share a line of their own.
    """

    opening: str
    items: tuple[tuple[str, Expression], ...]
    closing: str
    collection: bool = False


Expression: TypeAlias = str | Group


def call(name: str, arguments: Sequence[tuple[str, Expression]]) -> Group:
    """`name(key=value, ...)`; the key `**` unpacks a mapping."""
    return Group(f"{name}(", tuple((key if key == "**" else f"{key}=", value) for key, value in arguments), ")")


def mapping(entries: Sequence[tuple[str, Expression]]) -> Group:
    """`{"key": value, ...}`."""
    return Group("{", tuple((f"{quoted(key)}: ", value) for key, value in entries), "}", collection=True)


def quoted(text: str) -> str:
    """A text in double quotes, as formatters write it; what does not print stands as its escape."""
    return printable(json.dumps(text, ensure_ascii=False), but="")


def printable(text: str, *, but: str = "\t") -> str:
    """A text on one line: what would end the line, or show as something else, is written as its escape."""
    return "".join(char if char.isprintable() or char in but else ascii(char)[1:-1] for char in text)


def sequence(items: Sequence[Expression]) -> Group:
    """`(a, b)`."""
    return Group("(", tuple(("", item) for item in items), ")", collection=True)


def flat(expression: Expression) -> str:
    """The expression on one line."""
    if isinstance(expression, str):
        return expression
    inside = ", ".join(before + flat(value) for before, value in expression.items)
    comma = "," if expression.collection and expression.opening == "(" and len(expression.items) == 1 else ""
    return f"{expression.opening}{inside}{comma}{expression.closing}"


def lines(before: str, expression: Expression, after: str, indent: int) -> list[str]:
    """`before`, the expression and `after`, over as many lines as they need."""
    margin = " " * indent
    whole = f"{margin}{before}{flat(expression)}{after}"
    if len(whole) <= WIDTH or isinstance(expression, str) or not expression.items:
        return [whole]
    inner = indent + INDENT
    inside = " " * inner + ", ".join(start + flat(value) for start, value in expression.items)
    opened = f"{margin}{before}{expression.opening}"
    closed = f"{margin}{expression.closing}{after}"
    if len(inside) <= WIDTH and not expression.collection:
        return [opened, inside, closed]
    broken = [line for start, value in expression.items for line in lines(start, value, ",", inner)]
    return [opened, *broken, closed]
