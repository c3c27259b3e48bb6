"""Nodes as text, in the one way that the formatter writes them."""

from __future__ import annotations

import re
from typing import assert_never

from planlang.syntax import nodes
from planlang.syntax.keywords import KEYWORDS
from planlang.syntax.nodes import (
    AnyDepth,
    Argument,
    Axis,
    Binary,
    Call,
    Choice,
    Condition,
    Config,
    Convert,
    Except,
    Junction,
    Literal,
    Map,
    Member,
    Name,
    OfClass,
    Part,
    Path,
    Pattern,
    Range,
    Scalar,
    Segment,
    Star,
    Style,
    Target,
    Tuple,
    Unary,
    Value,
    Word,
)

_PLAIN = re.compile(r"\w+")

# How tightly conditions bind, from loose to tight.
_LEVELS = {"or": 1, "and": 2, "not": 3, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "in": 4}
_LEVELS |= {"+": 5, "-": 5, "*": 6, "//": 6, "%": 6}
_UNARY = 7
_TIGHTEST = 8


def target_text(target: Target) -> str:
    """A pattern with its `?`."""
    return pattern_text(target.pattern) + ("?" if target.optional else "")


def pattern_text(pattern: Pattern) -> str:
    """A pattern."""
    match pattern:
        case Path():
            return path_text(pattern)
        case Except():
            without = pattern_text(pattern.without)
            inner = without if isinstance(pattern.without, Path) else f"({without})"
            return f"{pattern_text(pattern.base)} except {inner}"
        case OfClass():
            return f"{pattern_text(pattern.base)} is {pattern.cls}"
        case _:
            assert_never(pattern)


def path_text(path: Path) -> str:
    """A path; a leading `**.` is written `*.`, as everybody does."""
    last = len(path.segments) - 1
    pieces = []
    for i, segment in enumerate(path.segments):
        if isinstance(segment, AnyDepth):
            pieces.append("*" if i == 0 and last > 0 else "**")
        elif i == 0 and last > 0 and segment.parts == (Star(),):
            pieces.append("{*}")  # one segment exactly: a bare `*` here would mean any number
        else:
            pieces.append(_segment(segment))
    text = ".".join(pieces)
    return f'"{text}"' if text in KEYWORDS else text


def _segment(segment: Segment) -> str:
    return "".join(map(part_text, segment.parts))


def part_text(part: Part) -> str:
    """One part of a segment."""
    match part:
        case Literal():
            return part.text if _PLAIN.fullmatch(part.text) else f'"{part.text}"'
        case Star():
            return "*"
        case Choice():
            return "{" + ",".join("".join(map(part_text, option)) for option in part.options) + "}"
        case Range():
            step = f"..{part.step}" if part.step != 1 else ""
            return f"{part.first}..{part.last}{step}"
        case _:
            assert_never(part)


def value_text(value: Value) -> str:
    """A value on one line."""
    match value:
        case Word():
            return value.text
        case Scalar():
            return scalar_text(value)
        case Call():
            inside = (argument_text(each) if isinstance(each, Argument) else value_text(each) for each in value.values)
            return f"{value.word}({', '.join(inside)})"
        case Convert():
            return f"{value_text(value.source)} -> {value_text(value.target)}"
        case Tuple():
            return f"({', '.join(map(value_text, value.values))})"
        case Map():
            return "{" + ", ".join(f"{entry.name}: {value_text(entry.value)}" for entry in value.entries) + "}"
        case _:
            assert_never(value)


def scalar_text(scalar: Scalar) -> str:
    """A number, string or truth value."""
    if isinstance(scalar.value, bool):
        return "true" if scalar.value else "false"
    return f'"{scalar.value}"' if isinstance(scalar.value, str) else str(scalar.value)


def argument_text(argument: Argument) -> str:
    """`name=value`."""
    return f"{argument.name}={value_text(argument.value)}" if argument.name else value_text(argument.value)


def style_text(style: Style) -> str:
    """A style on one line; empty parentheses are left out."""
    arguments = f"({', '.join(map(argument_text, style.arguments))})" if style.arguments else ""
    return style_head(style) + arguments


def style_head(style: Style) -> str:
    """A style without its arguments."""
    return f"{style.word} {scalar_text(style.path)}" if style.path else style.word.text


def axis_text(axis: Axis) -> str:
    """A mesh axis with its size."""
    return axis.name.text if axis.size is None else f"{axis.name}={axis.size}"


def condition_text(condition: Condition, around: int = 0) -> str:
    """A condition, with the parentheses that its place needs: `around` is how tightly its surroundings bind."""
    text, level = _condition(condition)
    return f"({text})" if level < around else text


def _condition(condition: Condition) -> tuple[str, int]:
    match condition:
        case Scalar():
            # A negative number is only ever written as a sign and a number.
            return scalar_text(condition), _TIGHTEST
        case Name():
            return condition.text, _TIGHTEST
        case Config():
            return f"config.{condition.name}", _TIGHTEST
        case Unary(operator="not"):
            return f"not {condition_text(condition.operand, _LEVELS['not'])}", _LEVELS["not"]
        case Unary():
            return f"-{condition_text(condition.operand, _UNARY)}", _UNARY
        case Binary():
            level = _LEVELS[condition.operator]
            left = condition_text(condition.left, level + (level == _LEVELS["=="]))
            return f"{left} {condition.operator} {condition_text(condition.right, level + 1)}", level
        case Member():
            among = ", ".join(condition_text(item, _LEVELS["+"]) for item in condition.among)
            return f"{condition_text(condition.operand, _LEVELS['+'])} in {{{among}}}", _LEVELS["in"]
        case Junction():
            level = _LEVELS[condition.operator]
            return f" {condition.operator} ".join(condition_text(c, level + 1) for c in condition.operands), level
        case _:
            assert_never(condition)


def one_line(statement: nodes.AnyStatement) -> str:
    """A statement on one line, where it fits on one: every kind but `when`."""
    match statement:
        case nodes.PlanLine():
            return f"plan {statement.name} for {', '.join(map(str, statement.classes))}"
        case nodes.MeshLine():
            axes = ", ".join(map(axis_text, statement.axes))
            return f"mesh {axes}" if len(statement.axes) == 1 else f"mesh ({axes})"
        case nodes.Extends():
            return f"extends {scalar_text(statement.target)}"
        case nodes.Drop():
            return f"drop {target_text(statement.target)}"
        case nodes.Let():
            return f"let {statement.name} = {style_text(statement.style)}"
        case nodes.Option():
            return f"option {statement.name} = {scalar_text(statement.default)}"
        case nodes.Require():
            return f"require {condition_text(statement.condition)} {scalar_text(statement.why)}"
        case nodes.Expect():
            return f"expect {target_text(statement.target)}: {', '.join(map(argument_text, statement.claims))}"
        case nodes.Rule():
            return f"{rule_head(statement)} {style_text(statement.style)}"
        case nodes.When() | nodes.Broken():
            raise ValueError(f"{type(statement).__name__} has no one-line form")
        case _:
            assert_never(statement)


def rule_head(rule: nodes.Rule) -> str:
    """A rule up to its colon."""
    return f"{'override ' if rule.override else ''}{target_text(rule.target)}:"
