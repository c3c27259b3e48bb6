"""From the records of many models of one class to one document in which what they share stands once.

Models whose records differ in numbers only form a *group*; those numbers become columns, of which each model has its
own values. Blocks, events, values and texts stand in tables and are named by their place there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from planlang.model.slots import Visit, visit_numbers

Json: TypeAlias = Any

SCHEMA = 1


def pack(models: Mapping[str, Mapping[str, Sequence[Json]]], failures: Mapping[str, Mapping[str, str]]) -> Json:
    """The document of models.

    Args:
        models: for each model, the records of each pass (`planlang.model.records`), the one to try first first.
        failures: for each model, why passes could not be captured, where some could not.
    """
    tables = _Tables()
    groups: dict[str, list[str]] = {}
    slots: dict[str, list[Json]] = {}
    for name, passes in models.items():
        slots[name] = []
        skeleton = _line(visit_numbers(passes, _collector(slots[name])))
        groups.setdefault(skeleton, []).append(name)
    packed_groups, packed_models = [], {}
    for place, (skeleton, members) in enumerate(groups.items()):
        columns = _Columns([slots[name] for name in members])
        packed_groups.append(tables.passes(visit_numbers(json.loads(skeleton), columns.filler(tables.number))))
        for position, name in enumerate(members):
            packed_models[name] = {"group": place, "columns": [column[position] for column in columns.columns]}
            if failures.get(name):
                packed_models[name]["failures"] = dict(failures[name])
    return {
        "schema": SCHEMA,
        "models": packed_models,
        "groups": packed_groups,
        "numbers": tables.numbers,
        "texts": tables.texts,
        "values": tables.values,
        "events": tables.events,
        "natures": "".join(_nature(event, tables.numbers) for event in tables.events),
        "blocks": tables.blocks,
    }


def dump(document: Json) -> str:
    """A document as text, a record a line."""
    parts = []
    for key, content in document.items():
        if isinstance(content, dict):
            lines = ",\n  ".join(f"{_line(name)}:{_line(each)}" for name, each in content.items())
            parts.append(f' "{key}":{{\n  {lines}\n }}')
        elif isinstance(content, list):
            lines = ",\n  ".join(map(_line, content))
            parts.append(f' "{key}":[\n  {lines}\n ]')
        else:
            parts.append(f' "{key}":{_line(content)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _line(content: Json) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _collector(slots: list[Json]) -> Visit:
    def collect(number: Json) -> Json:
        slots.append(number)
        return ["formula", *number[3:]] if isinstance(number, list) else ["constant"]

    return collect


class _Columns:
    """The numbers in which the members of a group differ.

    Attributes:
        columns: the values of each column, one for each member.
    """

    def __init__(self, slots: Sequence[Sequence[Json]]) -> None:
        self.columns: list[list[Json]] = []
        self._slots = zip(*slots, strict=True)
        self._known: dict[str, int] = {}

    def filler(self, number: Callable[[Json], int]) -> Visit:
        """Fills the slots of a skeleton in order; `number` places what is more than a constant in a table."""

        def fill(_: Json) -> Json:
            each = next(self._slots)
            if not isinstance(each[0], list):
                found = self._column(each)
                return ["number", number([found])] if isinstance(found, list) else found
            _, _, _, *powers = each[0]
            plus, times = self._column([e[1] for e in each]), self._column([e[2] for e in each])
            return ["number", number([plus, times, *powers])]

        return fill

    def _column(self, values: Sequence[Json]) -> Json:
        """The number that all members share, or the column that holds it, in brackets."""
        key = _line(values)
        if key == _line([values[0]] * len(values)):
            return values[0]
        if key not in self._known:
            self._known[key] = len(self.columns)
            self.columns.append(list(values))
        return [self._known[key]]


class _Tables:
    def __init__(self) -> None:
        self.numbers: list[Json] = []
        self.texts: list[str] = []
        self.values: list[Json] = []
        self.events: list[Json] = []
        self.blocks: list[Json] = []
        self._places: dict[tuple[int, str], int] = {}

    def passes(self, passes: Json) -> Json:
        return {name: [self._case(case) for case in cases] for name, cases in passes.items()}

    def number(self, number: Json) -> int:
        return self._place(self.numbers, number)

    def _place(self, table: list[Any], content: Json) -> int:
        key = (id(table), _line(content))
        if key not in self._places:
            self._places[key] = len(table)
            table.append(content)
        return self._places[key]

    def _text(self, text: str) -> int:
        return self._place(self.texts, text)

    def _case(self, case: Json) -> Json:
        stream = []
        for item in case["stream"]:
            if item[0] == "block":
                stream.append(["block", self._block(item[1]), item[2]])
            else:
                stream.append(["layers", self._text(item[1]), *item[2:]])
        bodies = [[self._block(block), *rest] for block, *rest in case["bodies"]]
        return {**case, "bodies": bodies, "stream": stream}

    def _block(self, block: Json) -> int:
        events, values = block
        content = [
            [self._place(self.events, self._event(event)) for event in events],
            [self._place(self.values, [*value[:4], [self._text(name) for name in value[4]]]) for value in values],
        ]
        return self._place(self.blocks, content)

    def _event(self, event: Json) -> Json:
        match event:
            case ["op", name, args, kwargs, outs, mutates]:
                tail: list[Json] = [self._arguments(args), outs, self._keywords(kwargs), mutates]
                while tail and not tail[-1]:
                    tail.pop()
                return ["op", self._text(name), *tail]
            case ["enter", name, args, kwargs]:
                return ["enter", self._text(name), self._arguments(args), self._keywords(kwargs)]
            case ["leave", name, args]:
                return ["leave", self._text(name), self._arguments(args)]
            case _:
                op, left, right, answer = event[1:]
                return ["guard", self._text(op), *self._arguments([left, right]), answer]

    def _arguments(self, args: Sequence[Json]) -> list[Json]:
        return [self._argument(each) for each in args]

    def _keywords(self, kwargs: Sequence[Json]) -> list[Json]:
        return [[self._text(name), self._argument(each)] for name, each in kwargs]

    def _argument(self, argument: Json) -> Json:
        match argument:
            case ["other", text]:
                return ["other", self._text(text)]
            case ["tuple" | "slice" as tag, *parts]:
                return [tag, *self._arguments(parts)]
        return argument


def _nature(event: Json, numbers: Sequence[Json]) -> str:
    """How an event depends on sizes, so that readers need not look: see `planlang.model.reading.Tables`."""
    if not _holds(event, lambda each: each[0] == "number" and len(numbers[each[1]]) > 1):
        return "-"
    # A size found by division follows its formula at some sizes only.
    return "?" if event[0] == "guard" or _holds(event, lambda each: each[0] in ("//", "%")) else "+"


def _holds(record: Json, test: Callable[[Json], bool]) -> bool:
    """Whether there is a list in a record that passes a test."""
    return isinstance(record, list) and bool(record) and (test(record) or any(_holds(each, test) for each in record))
