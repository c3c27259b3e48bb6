"""The syntax tree: what was written, nothing resolved.

Nodes are frozen and compare by content: spans and comments are left out of equality, so "formatting changed nothing" is
``==``. Consumers `match` on them and end in `assert_never`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TypeAlias

from planlang.source import Span

NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What every node has: where it stands in its text."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Node):
    """An identifier in a place where it names something."""

    text: str

    def __str__(self) -> str:
        return self.text


# Paths and patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal(Node):
    """Characters that stand for themselves."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Star(Node):
    """`*`: any characters of one segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Node):
    """`{q,k,v}`: one of several sequences of parts."""

    options: tuple[tuple[Part, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(Node):
    """`{first..last..step}`, both ends included; a negative end counts from the last index of the module list."""

    first: int
    last: int
    step: int = 1


Part: TypeAlias = Literal | Star | Choice | Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Node):
    """One segment of a path: parts that are read one after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyDepth(Node):
    """`**`, and `*` at the start of a longer path: any number of segments, also none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path(Node):
    """A pattern over a module's whole dotted name."""

    segments: tuple[Segment | AnyDepth, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Except(Node):
    """`base except without`: set difference."""

    base: Pattern
    without: Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClass(Node):
    """`base is cls`: only modules of that class name."""

    base: Pattern
    cls: Name


Pattern: TypeAlias = Path | Except | OfClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Node):
    """What a statement is about: a pattern, and whether it may match nothing (`?`)."""

    pattern: Pattern
    optional: bool = False


# Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Node):
    """A bare word: `replicate`, `none`, the name of a mesh axis."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Node):
    """A number, a string or a truth value."""

    value: bool | int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Node):
    """A word with values in parentheses: `shard(-1)`, `partial(max)`, `tree(acc=float32)`; a value may have a name."""

    word: str
    values: tuple[Value | Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Node):
    """`source -> target`."""

    source: Value
    target: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuple(Node):
    """`(a, b)`."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Node):
    """`name: value` in a map."""

    name: Name
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Node):
    """`{name: value, ...}`."""

    entries: tuple[Entry, ...]


Value: TypeAlias = Word | Scalar | Call | Convert | Tuple | Map


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(Node):
    """`name=value`; a value without a name is kept, so that the finding can say which name it lacks."""

    name: Name | None
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Style(Node):
    """A style or the name of a `let`, with arguments; `path` is what `custom` names."""

    word: Name
    path: Scalar | None = None
    arguments: tuple[Argument, ...] = ()


# Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Node):
    """`config.name`: a setting of the model."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Node):
    """`not x` or `-x`."""

    operator: str
    operand: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Node):
    """Arithmetic or a comparison of two operands."""

    operator: str
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Node):
    """`x in {a, b}`."""

    operand: Condition
    among: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Junction(Node):
    """`a and b and c`, or the same with `or`."""

    operator: str
    operands: tuple[Condition, ...]


Condition: TypeAlias = Scalar | Name | Config | Unary | Binary | Member | Junction


# Statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Comments(Node):
    """The comment lines right above a statement and the one behind it, without `#`; not part of its meaning."""

    above: tuple[str, ...] = ()
    behind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(Node):
    """What every statement has: its comments."""

    comments: Comments = field(default=Comments(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine(Statement):
    """`plan NAME for CLASS, CLASS`."""

    name: Name
    classes: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis(Node):
    """A mesh axis, with its size where one is given."""

    name: Name
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshLine(Statement):
    """`mesh (dp=2, tp=4)`."""

    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extends(Statement):
    """`extends "qwen"`: a path relative to this file, or the name of a bundled plan."""

    target: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Statement):
    """`drop PATTERN`."""

    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Let(Statement):
    """`let NAME = STYLE`."""

    name: Name
    style: Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Statement):
    """`option NAME = VALUE`."""

    name: Name
    default: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Require(Statement):
    """`require COND "why"`."""

    condition: Condition
    why: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect(Statement):
    """`expect PATTERN: in=..., out=...`."""

    target: Target
    claims: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Statement):
    """`PATTERN: STYLE`."""

    target: Target
    style: Style
    override: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class When(Statement):
    """`when COND { ... } else { ... }`.

    Attributes:
        otherwise: the `else` block; for `else when` it is that one statement.
        chain: how many conditions follow one another by `else when`, this one included.
        head: the span of `when COND`, what a finding about the condition underlines.
        then_block: the first block, from brace to brace.
        else_block: the block of `else`, if there is one that is not `else when`.
    """

    condition: Condition
    then: tuple[AnyStatement, ...]
    otherwise: tuple[AnyStatement, ...] = ()
    chain: int = field(default=1, compare=False)
    head: Span = field(default=NOWHERE, compare=False, repr=False)
    then_block: Span = field(default=NOWHERE, compare=False, repr=False)
    else_block: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Statement):
    """Text that could not be read; a finding says why, and nothing is reported on top of it.

    Attributes:
        declares: the name that it would have given to a `let` or an `option`, as far as that can be seen.
        inside: the statements of a block whose form is wrong, which could be read themselves.
    """

    declares: str = ""
    inside: tuple[AnyStatement, ...] = ()


AnyStatement: TypeAlias = PlanLine | MeshLine | Extends | Drop | Let | Option | Require | Expect | Rule | When | Broken


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Node):
    """A whole file."""

    statements: tuple[AnyStatement, ...]


def depth(node: Node) -> int:
    """How deep the tree below `node` is, found without recursion."""
    deepest = 0
    stack: list[tuple[object, int]] = [(node, 1)]
    while stack:
        item, level = stack.pop()
        deepest = max(deepest, level)
        if isinstance(item, tuple):
            stack.extend((child, level) for child in item)
        elif is_dataclass(item):
            stack.extend((getattr(item, f.name), level + 1) for f in fields(item) if f.compare)
    return deepest


def walk(statements: tuple[AnyStatement, ...]) -> Iterator[AnyStatement]:
    """Every statement, those inside `when` blocks behind it."""
    for statement in statements:
        yield statement
        if isinstance(statement, When):
            yield from walk(statement.then)
            yield from walk(statement.otherwise)
