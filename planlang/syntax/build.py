"""From grammar rules to nodes: one method a rule, called by Lark as it reduces.

Methods get the children of their rule, tokens and nodes; no tree is made in between. What is wrong in itself (a number
too long, a malformed pattern) is raised as a `Fault`. A test holds the methods' names to the grammar's.
"""

from __future__ import annotations

from typing import Any

from lark import Token

from planlang.diagnostics import codes
from planlang.source import Span
from planlang.syntax import nodes
from planlang.syntax.fault import Fault
from planlang.syntax.keywords import KEYWORDS
from planlang.syntax.paths import parse_path

MOST_DIGITS = 18
MOST_DEPTH = 64

Children = list[Any]


def _span(first: Any, last: Any) -> Span:
    """From the start of one token or node to the end of another."""
    start: int = first.start_pos if isinstance(first, Token) else first.span.start  # type: ignore[assignment]
    end: int = last.end_pos if isinstance(last, Token) else last.span.end  # type: ignore[assignment]
    return Span(start, end)


def _name(token: Token) -> nodes.Name:
    return nodes.Name(text=str(token), span=_span(token, token))


def _new_name(token: Token) -> nodes.Name:
    """A name that a statement gives, which may be no word of the language."""
    if str(token) in KEYWORDS:
        message = f"`{token}` is a word of the language"
        raise Fault(codes.UNEXPECTED_TEXT, _span(token, token), message, help="choose another name")
    return _name(token)


def _number(token: Token) -> int:
    if len(token) > MOST_DIGITS:
        message = f"a number has {len(token)} digits, and {MOST_DIGITS} are the most"
        raise Fault(codes.NUMBER_TOO_LARGE, _span(token, token), message, help="write the size that is meant")
    return int(token)


def _scalar(token: Token) -> nodes.Scalar:
    span = _span(token, token)
    match token.type:
        case "INT":
            return nodes.Scalar(value=_number(token), span=span)
        case "STRING":
            return nodes.Scalar(value=str(token)[1:-1], span=span)
        case _:
            return nodes.Scalar(value=token.type == "TRUE", span=span)


def _shallow(condition: nodes.Condition) -> nodes.Condition:
    if nodes.depth(condition) > MOST_DEPTH:
        message = f"the condition is nested more than {MOST_DEPTH} deep"
        raise Fault(codes.TOO_DEEP, condition.span, message, help="split it over several options or `when` blocks")
    return condition


def _chain(children: Children) -> nodes.Condition:
    """`a + b - c` as ((a + b) - c)."""
    left: nodes.Condition = children[0]
    for operator, right in zip(children[1::2], children[2::2], strict=True):
        left = nodes.Binary(operator=str(operator), left=left, right=right, span=_span(left, right))
    return left


def _junction(operator: str, children: Children) -> nodes.Junction:
    return nodes.Junction(operator=operator, operands=tuple(children), span=_span(children[0], children[-1]))


class Builder:
    """The methods that Lark calls, named as the rules of the grammar."""

    # Statements

    def file(self, children: Children) -> nodes.File:
        return nodes.File(statements=tuple(children))

    def plan(self, children: Children) -> nodes.PlanLine:
        word, name, *classes = children
        span = _span(word, children[-1])
        return nodes.PlanLine(name=_new_name(name), classes=tuple(map(_name, classes)), span=span)

    def mesh(self, children: Children) -> nodes.MeshLine:
        axes = tuple(child for child in children if isinstance(child, nodes.Axis))
        return nodes.MeshLine(axes=axes, span=_span(children[0], children[-1]))

    def axis(self, children: Children) -> nodes.Axis:
        name, *size = children
        return nodes.Axis(name=_new_name(name), size=_number(size[0]) if size else None, span=_span(name, children[-1]))

    def extends(self, children: Children) -> nodes.Extends:
        word, target = children
        return nodes.Extends(target=_scalar(target), span=_span(word, target))

    def drop(self, children: Children) -> nodes.Drop:
        word, pattern = children
        return nodes.Drop(target=to_target(pattern), span=_span(word, pattern))

    def let(self, children: Children) -> nodes.Let:
        word, name, style = children
        return nodes.Let(name=_new_name(name), style=style, span=_span(word, style))

    def option(self, children: Children) -> nodes.Option:
        word, name, default = children
        return nodes.Option(name=_new_name(name), default=default, span=_span(word, default))

    def require(self, children: Children) -> nodes.Require:
        word, condition, why = children
        return nodes.Require(condition=_shallow(condition), why=_scalar(why), span=_span(word, why))

    def expect(self, children: Children) -> nodes.Expect:
        word, pattern, *claims = children
        return nodes.Expect(target=to_target(pattern), claims=tuple(claims), span=_span(word, claims[-1]))

    def claim(self, children: Children) -> nodes.Argument:
        name, value = children
        return nodes.Argument(name=_name(name), value=value, span=_span(name, value))

    def rule(self, children: Children) -> nodes.Rule:
        *override, pattern, style = children
        span = _span(children[0], style)
        return nodes.Rule(target=to_target(pattern), style=style, override=bool(override), span=span)

    def when_head(self, children: Children) -> nodes.When:
        word, condition = children
        span = _span(word, condition)
        return nodes.When(condition=_shallow(condition), then=(), span=span, head=span)

    def block(self, children: Children) -> tuple[tuple[nodes.AnyStatement, ...], Span]:
        opening, *statements, close = children
        return tuple(statements), _span(opening, close)

    def when(self, children: Children) -> nodes.When:
        head, (then, then_block), *rest = children
        otherwise: tuple[nodes.AnyStatement, ...] = ()
        end, else_block, chain = then_block.end, None, 1
        match rest:
            case [_, nodes.When() as following]:
                otherwise, end, chain = (following,), following.span.end, following.chain + 1
            case [_, (otherwise, else_block)]:
                end = else_block.end
        if chain > MOST_DEPTH:
            message = f"more than {MOST_DEPTH} `else when` follow one another"
            raise Fault(codes.TOO_DEEP, head.span, message, help="use `in {…}`, or split the plan into files")
        return nodes.When(
            condition=head.condition,
            then=then,
            otherwise=otherwise,
            chain=chain,
            head=head.head,
            then_block=then_block,
            else_block=else_block,
            span=Span(head.span.start, end),
        )

    # Patterns

    def path(self, children: Children) -> nodes.Path:
        (token,) = children
        if str(token) in KEYWORDS:
            message = f"`{token}` is a word of the language"
            raise Fault(
                codes.BAD_PATTERN, _span(token, token), message, help=f'write `"{token}"` for a module of that name'
            )
        return parse_path(str(token), token.start_pos)

    def group(self, children: Children) -> nodes.Pattern:
        _, pattern, _ = children
        return _required(pattern)

    def optional(self, children: Children) -> nodes.Target:
        pattern, mark = children
        if isinstance(pattern, nodes.Target):
            raise Fault(codes.BAD_PATTERN, _span(mark, mark), "`?` stands twice", help="remove one")
        return nodes.Target(pattern=pattern, optional=True, span=_span(pattern, mark))

    def except_(self, children: Children) -> nodes.Pattern | nodes.Target:
        base, without = children
        pattern = nodes.Except(base=_bare(base), without=_required(without), span=_span(base, without))
        return _like(base, pattern)

    def of_class(self, children: Children) -> nodes.Pattern | nodes.Target:
        base, cls = children
        pattern = nodes.OfClass(base=_bare(base), cls=_name(cls), span=_span(base, cls))
        return _like(base, pattern)

    # Styles and values

    def style(self, children: Children) -> nodes.Style:
        word, *rest = children
        path = _scalar(rest.pop(0)) if rest and isinstance(rest[0], Token) else None
        arguments, end = rest[0] if rest else ((), children[-1])
        return nodes.Style(word=_name(word), path=path, arguments=arguments, span=_span(word, end))

    def arguments(self, children: Children) -> tuple[tuple[nodes.Argument, ...], Token]:
        return tuple(children[1:-1]), children[-1]

    def argument(self, children: Children) -> nodes.Argument:
        *name, value = children
        return nodes.Argument(name=_name(name[0]) if name else None, value=value, span=_span(children[0], value))

    def conversion(self, children: Children) -> nodes.Convert:
        source, target = children
        return nodes.Convert(source=source, target=target, span=_span(source, target))

    def word(self, children: Children) -> nodes.Word:
        (token,) = children
        return nodes.Word(text=str(token), span=_span(token, token))

    def call(self, children: Children) -> nodes.Call:
        word, _, *values, close = children
        plain = tuple(each if each.name else each.value for each in values)
        return nodes.Call(word=str(word), values=plain, span=_span(word, close))

    def tuple(self, children: Children) -> nodes.Tuple:
        return nodes.Tuple(values=(*children[1:-1],), span=_span(children[0], children[-1]))

    def map(self, children: Children) -> nodes.Map:
        return nodes.Map(entries=tuple(children[1:-1]), span=_span(children[0], children[-1]))

    def entry(self, children: Children) -> nodes.Entry:
        name, value = children
        return nodes.Entry(name=_name(name), value=value, span=_span(name, value))

    def scalar(self, children: Children) -> nodes.Scalar:
        *minus, token = children
        if minus:
            return nodes.Scalar(value=-_number(token), span=_span(minus[0], token))
        return _scalar(token)

    # Conditions

    def or_(self, children: Children) -> nodes.Junction:
        return _junction("or", children)

    def and_(self, children: Children) -> nodes.Junction:
        return _junction("and", children)

    def not_(self, children: Children) -> nodes.Unary:
        word, operand = children
        return nodes.Unary(operator="not", operand=operand, span=_span(word, operand))

    def compare(self, children: Children) -> nodes.Binary:
        left, operator, right = children
        return nodes.Binary(operator=str(operator), left=left, right=right, span=_span(left, right))

    def member(self, children: Children) -> nodes.Member:
        operand, (among, close) = children
        return nodes.Member(operand=operand, among=among, span=_span(operand, close))

    def set(self, children: Children) -> Any:
        return (*children[1:-1],), children[-1]

    def sum(self, children: Children) -> nodes.Condition:
        return _chain(children)

    def product(self, children: Children) -> nodes.Condition:
        return _chain(children)

    def negative(self, children: Children) -> nodes.Unary:
        word, operand = children
        return nodes.Unary(operator="-", operand=operand, span=_span(word, operand))

    def scalar_operand(self, children: Children) -> nodes.Scalar:
        (token,) = children
        return _scalar(token)

    def name(self, children: Children) -> nodes.Name:
        (token,) = children
        return _name(token)

    def config(self, children: Children) -> nodes.Config:
        (token,) = children
        return nodes.Config(name=str(token).partition(".")[2], span=_span(token, token))

    def parenthesis(self, children: Children) -> nodes.Condition:
        inside: nodes.Condition = children[1]
        return inside


def to_target(pattern: nodes.Pattern | nodes.Target) -> nodes.Target:
    """A pattern as what a statement is about.

    Raises:
        Fault: it is nested too deep.
    """
    target = pattern if isinstance(pattern, nodes.Target) else nodes.Target(pattern=pattern, span=pattern.span)
    if isinstance(target.pattern, nodes.Path):
        return target
    stack: list[tuple[nodes.Pattern, int]] = [(target.pattern, 1)]
    while stack:
        inner, level = stack.pop()
        if level > MOST_DEPTH:
            message = f"the pattern has more than {MOST_DEPTH} `except` and `is` in one another"
            raise Fault(codes.TOO_DEEP, target.span, message, help="write several rules")
        match inner:
            case nodes.Except():
                stack += [(inner.base, level + 1), (inner.without, level + 1)]
            case nodes.OfClass():
                stack.append((inner.base, level + 1))
            case nodes.Path():
                pass
    return target


def _bare(pattern: nodes.Pattern | nodes.Target) -> nodes.Pattern:
    return pattern.pattern if isinstance(pattern, nodes.Target) else pattern


def _like(base: nodes.Pattern | nodes.Target, pattern: nodes.Pattern) -> nodes.Pattern | nodes.Target:
    """`pattern`, and may match nothing where `base` might."""
    if isinstance(base, nodes.Target):
        return nodes.Target(pattern=pattern, optional=True, span=pattern.span)
    return pattern


def _required(pattern: nodes.Pattern | nodes.Target) -> nodes.Pattern:
    if isinstance(pattern, nodes.Target):
        span = Span(pattern.span.end - 1, pattern.span.end)
        raise Fault(
            codes.BAD_PATTERN, span, "`?` may not stand inside a pattern", help="put `?` behind the whole pattern"
        )
    return pattern
