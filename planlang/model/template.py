"""A captured pass for any batch size and length: pure Python, since the checker runs without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from planlang.model.graph import Call, Graph
from planlang.model.reading import Reader, Tables, holds

Json: TypeAlias = Any


class SizeError(ValueError):
    """A pass is not known at this batch size and length."""


@dataclass(frozen=True, slots=True)
class Template:
    """One pass.

    Attributes:
        cases: what the code does, one for each way that it takes by batch size and length.
    """

    cases: tuple[Case, ...]

    def find(self, batch: int, length: int) -> Graph | None:
        """The pass at a batch size and length; `None` where the code would do something that was not captured."""
        return next((graph for case in self.cases if (graph := case.at(batch, length)) is not None), None)

    def at(self, batch: int, length: int) -> Graph:
        """The pass at a batch size and length.

        Raises:
            SizeError: the code would do something there that was not captured.
        """
        graph = self.find(batch, length)
        if graph is not None:
            return graph
        known = " or ".join(dict.fromkeys(case.domain for case in self.cases))
        raise SizeError(f"the pass is not known at batch {batch} and length {length}, but at {known}")

    @property
    def settings(self) -> tuple[tuple[int, int], ...]:
        """The batch sizes and lengths at which alone it is known; none where it is known in general."""
        found = [setting for case in self.cases if (setting := case.setting) is not None]
        return tuple(found) if len(found) == len(self.cases) else ()


@dataclass(frozen=True, slots=True)
class Graphs:
    """What is known of a model's forward pass.

    Attributes:
        passes: by circumstances: `plain` (no padding), `masked` (a padding mask), `step` (length 1), `eager` (no fused
            attention); `example` for a module that is no language model.
        failures: why a pass is not there or is known at some sizes only, by circumstances.
    """

    passes: Mapping[str, Template] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def failure(self) -> str:
        """Why there is no pass at all; empty where there is one."""
        return "" if self.passes else next(iter(self.failures.values()), "no pass was captured")


def unpack(document: Json, name: str) -> Graphs:
    """The graphs of one model of a document (`planlang.model.packing`).

    Raises:
        LookupError: the document has no such model.
    """
    model = document["models"][name]
    tables = Tables(document, model["columns"])
    passes = document["groups"][model["group"]]
    return Graphs(
        {kind: Template(tuple(Case(tables, each) for each in cases)) for kind, cases in passes.items()},
        model.get("failures", {}),
    )


class Case:
    """What the code does for some batch sizes and lengths."""

    def __init__(self, tables: Tables, record: Json) -> None:
        self._tables = tables
        self._record = record
        self._batch: int | None = record["batch"]
        self._length: int | None = record["length"]

    @property
    def setting(self) -> tuple[int, int] | None:
        """The batch size and length at which alone it is known."""
        return None if self._batch is None or self._length is None else (self._batch, self._length)

    @property
    def domain(self) -> str:
        """The sizes for which it may hold."""
        sizes = (("batch", self._batch), ("length", self._length))
        given = [f"{name} {size}" for name, size in sizes if size is not None]
        return " and ".join(given) or "sizes at which the code's comparisons come out the same"

    def at(self, batch: int, length: int) -> Graph | None:
        """The pass, or `None` where the code would do something else."""
        if self._batch not in (None, batch) or self._length not in (None, length):
            return None
        layout, tables = self._layout, self._tables
        reader = Reader(tables.at(batch, length), tables.texts)
        made = [reader.value(tables.values[place], as_output) for place, as_output in layout.distinct]
        values = tuple([made[k] for k in layout.values])
        streams = []
        for stream in layout.streams:
            events = list(stream.events)
            for position, record, table in stream.moving:
                events[position] = reader.event(record, table)
            if not all(holds(events[position], values) for position in stream.checked):
                return None
            streams.append(tuple(events))
        return Graph(batch, length, values, streams[0], tuple(streams[1:]), layout.outputs)

    @cached_property
    def _layout(self) -> _Layout:
        return _Builder(self._tables).build(self._record)


@dataclass(slots=True)
class _Stream:
    """The events of the whole or of a body.

    Attributes:
        events: those that are the same at all sizes, and anything in place of the others.
        moving: positions and records of the others, with what the numbers of values in them stand for.
        checked: positions of those that tell whether the code takes this way.
    """

    events: list[Any] = field(default_factory=list)
    moving: list[tuple[int, Json, list[int]]] = field(default_factory=list)
    checked: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Layout:
    """A case with everything done that does not depend on sizes.

    Attributes:
        distinct: records of values, by place in their table, and whether what is meant is the copy that a layer gave.
        values: for each value, its place among the distinct ones.
        streams: the whole, then each body.
        outputs: the values that the model returns.
    """

    distinct: list[tuple[int, bool]]
    values: list[int]
    streams: list[_Stream]
    outputs: tuple[int, ...]


class _Builder:
    """Numbers the values of a case and reads the events that are the same at all sizes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._reader = Reader(tables.numbers, tables.texts)
        self._distinct: dict[tuple[int, bool], int] = {}
        self._values: list[int] = []

    def build(self, record: Json) -> _Layout:
        """The layout of a case."""
        main, bodies = _Stream(), [_Stream() for _ in record["bodies"]]
        called: dict[int, tuple[list[int], ...]] = {}
        for tag, *item in record["stream"]:
            if tag == "block":
                self._block(main, item[0], self._outside(item[1]))
                continue
            prefix, first, program = item
            for index, kind in enumerate(self._kinds(program), first):
                body, outers = record["kinds"][kind]
                outer = self._outside(outers)
                if body not in called:
                    called[body] = self._body(bodies[body], record["bodies"][body])
                taken, made, returned = called[body]
                start = len(self._values)
                for place in returned:
                    self._add(place, as_output=True)
                given = tuple(zip(made, range(start, len(self._values)), strict=True))
                module = f"{self._tables.texts[prefix]}.{index}"
                main.events.append(Call(module, body, tuple(zip(taken, outer, strict=True)), given))
        return _Layout(list(self._distinct), self._values, [main, *bodies], tuple(self._outside(record["outputs"])))

    def _outside(self, places: list[int]) -> list[int]:
        """The numbers of values that are given from the front, or counted back from here."""
        end = len(self._values)
        return [place if place >= 0 else end + place for place in places]

    def _kinds(self, program: Json) -> list[int]:
        """The kinds of calls, layer by layer."""
        return [kind for kinds, times in program for kind in kinds * self._reader.number(times)]

    def _add(self, place: int, *, as_output: bool = False) -> None:
        self._values.append(self._distinct.setdefault((place, as_output), len(self._distinct)))

    def _body(self, stream: _Stream, record: Json) -> tuple[list[int], ...]:
        """Adds a body; returns the numbers of its inputs and outputs, and the places of the values that are outputs."""
        block, outside, taken, made = record
        table = self._block(stream, block, self._outside(outside))
        values = self._tables.blocks[block][1]
        return [table[k] for k in taken], [table[k] for k in made], [values[k] for k in made]

    def _block(self, stream: _Stream, block: int, outside: list[int]) -> list[int]:
        """Adds a block's values, and its events to a stream; returns what numbers in it stand for."""
        events, values = self._tables.blocks[block]
        start = len(self._values)
        for place in values:
            self._add(place)
        # Numbers from -1 downwards stand for what comes from outside, and Python counts so from the end of a list.
        table = [*range(start, len(self._values)), *reversed(outside)]
        for place in events:
            record = self._tables.events[place]
            nature = self._tables.natures[place]
            if nature == "-":
                stream.events.append(self._reader.event(record, table))
                continue
            stream.moving.append((len(stream.events), record, table))
            if nature == "?":
                stream.checked.append(len(stream.events))
            stream.events.append(None)
        return table
