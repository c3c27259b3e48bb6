"""Decides conditions: options, mesh axes and the model's configuration, three-valued.

What is not known (a size without `--tp`, a configuration without `--model`) stays unknown unless the rest decides:
``false and config.x > 1`` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import did_you_mean
from planlang.source import Span
from planlang.syntax.nodes import Binary, Condition, Config, Junction, Member, Name, Scalar, Unary

Value: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that needs what was not given: `what` is the command-line option that would."""

    what: str


class Undecidable(Exception):
    """A condition that is wrong in itself."""

    def __init__(self, code: Code, span: Span, message: str, help: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.span = span
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True)
class Scope:
    """What a condition may name.

    Attributes:
        options: the plan's options and their values.
        axes: the mesh axes and their sizes, `None` where one is not known.
        config: the model's scalar settings; `None` without a model.
    """

    options: Mapping[str, bool | int | str]
    axes: Mapping[str, int | None]
    config: Mapping[str, Value | Unknown] | None


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def decide(condition: Condition, scope: Scope) -> bool | Unknown:
    """Whether a condition holds.

    Raises:
        Undecidable: where it names what is not there, mixes kinds or divides by zero.
    """
    value = _value(condition, scope)
    if isinstance(value, bool | Unknown):
        return value
    raise _mismatch(condition, value, "true or false")


def deciding(condition: Condition, scope: Scope, given: Mapping[str, int]) -> tuple[dict[str, int], dict[str, Value]]:
    """The sizes of axes and the settings of the model that a decided condition was decided with.

    What it names and would be decided without is left out: in `deep and tp > 2` the size, where `deep` is false.

    Args:
        condition: one that `decide` decided.
        scope: with this.
        given: the axes whose sizes the caller gave, with these; the others stand in the plan.
    """
    sizes: dict[str, int] = {}
    settings: dict[str, Value] = {}
    for node in dict.fromkeys(_names(condition)):
        if isinstance(node, Name) and node.text in given and node.text not in scope.options:
            without = replace(scope, axes={**scope.axes, node.text: None})
        elif isinstance(node, Config) and scope.config is not None and node.name in scope.config:
            without = replace(scope, config={**scope.config, node.name: Unknown("--model")})
        else:
            continue
        if _is_decided(condition, without):
            scope = without
        elif isinstance(node, Name):
            sizes[node.text] = given[node.text]
        else:
            settings[node.name] = _known(node, scope)
    return sizes, settings


def _known(node: Config, scope: Scope) -> Value:
    value = (scope.config or {})[node.name]
    assert not isinstance(value, Unknown)
    return value


def _is_decided(condition: Condition, scope: Scope) -> bool:
    try:
        return not isinstance(decide(condition, scope), Unknown)
    except Undecidable:
        return False


def names_in(condition: Condition) -> list[str]:
    """Every name that a condition uses, in order, once; settings as `config.NAME`."""
    return list(dict.fromkeys(n.text if isinstance(n, Name) else f"config.{n.name}" for n in _names(condition)))


def unknown_names(condition: Condition, scope: Scope) -> list[Undecidable]:
    """What is wrong with the names of options and axes in a condition: each of them, whatever the others decide."""
    found = []
    for node in _names(condition):
        if isinstance(node, Name):
            try:
                _name(node, scope)
            except Undecidable as error:
                found.append(error)
    return found


def _names(node: Condition) -> Iterator[Name | Config]:
    match node:
        case Name() | Config():
            yield node
        case Scalar():
            return
        case Unary():
            yield from _names(node.operand)
        case Binary():
            yield from _names(node.left)
            yield from _names(node.right)
        case Member():
            for operand in (node.operand, *node.among):
                yield from _names(operand)
        case Junction():
            for operand in node.operands:
                yield from _names(operand)
        case _:
            assert_never(node)


def spelt(value: object) -> str:
    """A value as the language writes it."""
    if isinstance(value, bool) or value is None:
        return "none" if value is None else str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _value(node: Condition, scope: Scope) -> Value | Unknown:
    match node:
        case Scalar():
            return node.value
        case Name():
            return _name(node, scope)
        case Config():
            return _config(node, scope)
        case Unary():
            return _unary(node, scope)
        case Binary():
            return _binary(node, scope)
        case Member():
            return _member(node, scope)
        case Junction():
            return _junction(node, scope)
        case _:
            assert_never(node)


def _name(node: Name, scope: Scope) -> Value | Unknown:
    if node.text in scope.options:
        return scope.options[node.text]
    if node.text in scope.axes:
        size = scope.axes[node.text]
        return (
            Unknown(f"--{node.text}" if node.text == "tp" else f"a size for `{node.text}` in the `mesh` line")
            if size is None
            else size
        )
    names = [*scope.options, *scope.axes]
    known = ", ".join(f"`{name}`" for name in names)
    help_ = did_you_mean(node.text, names, f"known here are {known}, and the model's settings as `config.NAME`")
    raise Undecidable(codes.UNKNOWN_NAME, node.span, f"no option and no mesh axis is called `{node.text}`", help_)


def _config(node: Config, scope: Scope) -> Value | Unknown:
    if scope.config is None:
        return Unknown("--model")
    if node.name in scope.config:
        return scope.config[node.name]
    message = f"no setting `{node.name}` is known of this model"
    otherwise = "the catalog holds only the settings that shape modules: `--model` with a config.json knows them all"
    raise Undecidable(codes.UNKNOWN_CONFIG, node.span, message, did_you_mean(node.name, scope.config, otherwise))


def _unary(node: Unary, scope: Scope) -> Value | Unknown:
    value = _value(node.operand, scope)
    if isinstance(value, Unknown):
        return value
    if node.operator == "not":
        if not isinstance(value, bool):
            raise _mismatch(node.operand, value, "true or false")
        return not value
    return -_integer(node.operand, value)


def _binary(node: Binary, scope: Scope) -> Value | Unknown:
    left, right = _value(node.left, scope), _value(node.right, scope)
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    if node.operator in _ARITHMETIC:
        a, b = _integer(node.left, left), _integer(node.right, right)
        if b == 0 and node.operator in ("//", "%"):
            raise Undecidable(codes.BAD_CONDITION, node.span, f"`{a} {node.operator} {b}` divides by zero")
        return _ARITHMETIC[node.operator](a, b)
    if node.operator in _ORDER:
        return _ORDER[node.operator](_number(node.left, left), _number(node.right, right))
    equal = _same(node.span, left, right)
    return equal if node.operator == "==" else not equal


def _member(node: Member, scope: Scope) -> bool | Unknown:
    value = _value(node.operand, scope)
    if isinstance(value, Unknown):
        return value
    unknown: Unknown | None = None
    for item in node.among:
        other = _value(item, scope)
        if isinstance(other, Unknown):
            unknown = other
        elif _same(item.span, value, other):
            return True
    return unknown or False


def _junction(node: Junction, scope: Scope) -> bool | Unknown:
    deciding = node.operator == "or"
    unknown: Unknown | None = None
    for operand in node.operands:
        value = _value(operand, scope)
        if isinstance(value, Unknown):
            unknown = value
        elif not isinstance(value, bool):
            raise _mismatch(operand, value, "true or false")
        elif value is deciding:
            return deciding
    return unknown or (not deciding)


def _integer(node: Condition, value: Value) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _mismatch(node, value, "a whole number")


def _number(node: Condition, value: Value) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _mismatch(node, value, "a number")


def _same(span: Span, left: Value, right: Value) -> bool:
    if left is None or right is None:
        return left is right
    if _kind(left) != _kind(right):
        message = f"{_kind(left)} is compared with {_kind(right)}, which is never equal"
        quoted = {type(left), type(right)} == {str, int} and "numbers stand without quotes"
        raise Undecidable(codes.BAD_CONDITION, span, message, quoted or "")
    return left == right


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "a string" if isinstance(value, str) else "a number"


def _mismatch(node: Condition, value: Value, wanted: str) -> Undecidable:
    return Undecidable(codes.BAD_CONDITION, node.span, f"this must be {wanted}, and it is {spelt(value)}")
