"""Reads the tables of a document of graphs: values, events and arguments, at one batch size and length."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from planlang.model.formulas import Formula
from planlang.model.graph import (
    Argument,
    Arithmetic,
    Dim,
    Enter,
    Event,
    Expression,
    Guard,
    Leave,
    Op,
    Other,
    Ref,
    Size,
    Slice,
    Value,
)

Json: TypeAlias = Any

_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


class Tables:
    """What all passes of a model share.

    Attributes:
        numbers: constants and formulas.
        texts: names.
        values: records of values.
        events: records of events.
        natures: for each event, `-` if it is the same at all sizes, `+` if it moves with them, `?` if it also tells
            whether the code goes this way.
        blocks: the places of a block's events, and of the values that it makes.
    """

    def __init__(self, document: Json, columns: Sequence[Any]) -> None:
        self.numbers = [_number(each, columns) for each in document["numbers"]]
        self.texts: list[str] = document["texts"]
        self.values: list[Json] = document["values"]
        self.events: list[Json] = document["events"]
        self.blocks: list[tuple[list[int], list[int]]] = document["blocks"]
        self.natures: str = document["natures"]

    def at(self, batch: int, length: int) -> list[Any]:
        """The numbers at a batch size and length."""
        return [number.at(batch, length) if type(number) is Formula else number for number in self.numbers]


def _number(record: Json, columns: Sequence[Any]) -> Any:
    """A number of a model's; where it belongs to models of another group, it is never used."""
    found = [(columns[each[0]] if each[0] < len(columns) else 0) if type(each) is list else each for each in record]
    return Formula(*found) if len(found) > 1 else found[0]


class Reader:
    """Reads records with given numbers."""

    def __init__(self, numbers: Sequence[Any], texts: Sequence[str]) -> None:
        self._numbers = numbers
        self._texts = texts

    def number(self, record: Json) -> Any:
        """A number."""
        return self._numbers[record[1]] if type(record) is list else record

    def value(self, record: Json, as_output: bool) -> Value:
        """A value, or what a repeated layer returns in its place."""
        shape, kind, origin, grad, names = record
        sizes = tuple([self._numbers[each[1]] if type(each) is list else each for each in shape])
        if as_output:
            return Value(sizes, kind, "computed", grad)
        return Value(sizes, kind, origin, grad, tuple([self._texts[name] for name in names]))

    def event(self, record: Json, table: Sequence[int]) -> Event:
        """An event; `table` says what the numbers of values in it stand for."""
        match record[0]:
            case "op":
                _, name, args, outs, kwargs, mutates = (*record, (), (), (), ())[:6]
                return Op(
                    self._texts[name],
                    self._arguments(args, table),
                    self._keywords(kwargs, table),
                    tuple([table[out] for out in outs]),
                    tuple([table[each] for each in mutates]),
                )
            case "enter":
                return Enter(
                    self._texts[record[1]], self._arguments(record[2], table), self._keywords(record[3], table)
                )
            case "leave":
                return Leave(self._texts[record[1]], self._arguments(record[2], table))
        left, right = self._arguments(record[2:4], table)
        return Guard(self._texts[record[1]], left, right, record[4])

    def _keywords(self, records: Json, table: Sequence[int]) -> tuple[tuple[str, Argument], ...]:
        return tuple([(self._texts[name], self._argument(each, table)) for name, each in records])

    def _arguments(self, records: Json, table: Sequence[int]) -> tuple[Argument, ...]:
        return tuple([self._argument(each, table) if type(each) is list else each for each in records])

    def _argument(self, record: Json, table: Sequence[int]) -> Argument:
        if type(record) is not list:
            return record  # type: ignore[no-any-return]
        match record[0]:
            case "ref":
                return Ref(table[record[1]])
            case "size":
                return Size(self.number(record[1]), self._origin(record[2], table))
            case "number":
                return self._numbers[record[1]]  # type: ignore[no-any-return]
            case "tuple":
                return self._arguments(record[1:], table)
            case "slice":
                return Slice(*self._arguments(record[1:], table))
            case "other":
                return Other(self._texts[record[1]])
        return float(record[1])

    def _origin(self, record: Json, table: Sequence[int]) -> Expression:
        if type(record) is not list:
            return record  # type: ignore[no-any-return]
        match record[0]:
            case "dim":
                return Dim(table[record[1]], record[2])
            case "number":
                return self._numbers[record[1]]  # type: ignore[no-any-return]
        return Arithmetic(record[0], self._origin(record[1], table), self._origin(record[2], table))


def holds(event: Event, values: Sequence[Value]) -> bool:
    """Whether the code does this at these sizes: a comparison comes out so, and sizes are what they were found from."""
    if isinstance(event, Guard):
        compare = _COMPARE.get(event.op)
        if compare is not None and compare(_integer(event.left), _integer(event.right)) != event.answer:
            return False
    return all(size.number == _evaluate(size.origin, values) for size in _sizes(event))


def _integer(argument: Any) -> Any:
    return argument.number if type(argument) is Size else argument


def _sizes(part: Any) -> Iterator[Size]:
    """Every size in an event."""
    match part:
        case Size():
            yield part
        case Op(_, args, kwargs) | Enter(_, args, kwargs):
            yield from _sizes((args, kwargs))
        case Leave(_, outs):
            yield from _sizes(outs)
        case Guard(_, left, right):
            yield from _sizes((left, right))
        case Slice(start, stop, step):
            yield from _sizes((start, stop, step))
        case tuple():
            for each in part:
                yield from _sizes(each)


def _evaluate(origin: Expression, values: Sequence[Value]) -> int:
    match origin:
        case Dim(value, dim):
            return values[value].shape[dim]
        case Arithmetic(op, left, right):
            return int(_COMPUTE[op](_evaluate(left, values), _evaluate(right, values)))
    return origin
