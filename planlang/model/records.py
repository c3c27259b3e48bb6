"""From captured graphs of one pass to its record: nested lists without repetition, with formulas for sizes.

A record holds the events in *blocks*: a body, or a stretch of events between the repeated layers. In a block, values
are numbered from 0 where the block makes them, and from -1 downwards where they come from outside; the use of a block
lists those. There, a value is an absolute number if it was made before the first layer, and else counted back from
where the block begins. So a record does not depend on the number of layers, but for one count in its list of layers:

    batch, length  the only ones for which it holds, or null
    stream         in order: ["block", block, outside] and ["layers", name of the list, first index, kinds of calls]
    kinds          of calls of layers: [body, inputs]
    bodies         [block, outside, places of its inputs, places of its outputs]
    outputs        of the whole, counted from its end
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from planlang.model.encoding import Block, Encoder, parallel, same
from planlang.model.formulas import Inexpressible
from planlang.model.graph import Call, Event, Graph, mentioned

Json: TypeAlias = Any


def record(graphs: Sequence[Graph]) -> dict[str, Json]:
    """The record of passes that differ in batch size and length only.

    Raises:
        Inexpressible: the code did different things in them, or a size follows no formula.
    """
    return _Writer(graphs).write()


class _Writer:
    """Walks the events of all passes at once and keeps track of which values there are."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._graphs = graphs
        self._encoder = Encoder([(graph.batch, graph.length) for graph in graphs])
        self._stream: list[list[Json]] = []
        self._bodies: dict[int, Json] = {}
        self._inner: dict[int, tuple[list[int], list[int]]] = {}
        self._kinds: list[Json] = []
        self._pending: list[int] = []  # events since the last layer, by position
        self._cursor = 0  # how many values the stream has made
        self._early: int | None = None  # how many of them were there before the first layer

    def write(self) -> dict[str, Json]:
        first = self._graphs[0]
        if any(len(graph.values) != len(first.values) for graph in self._graphs):
            raise Inexpressible("the passes made different numbers of tensors")
        top = 0
        for position, events in enumerate(parallel([graph.events for graph in self._graphs])):
            event = events[0]
            if isinstance(event, Call):
                top = self._call(events, top)
            else:
                self._pending.append(position)
                top = max(top, _top(event))
        self._flush(len(first.values))
        end = len(first.values)
        batches, lengths = ({getattr(graph, which) for graph in self._graphs} for which in ("batch", "length"))
        return {
            "batch": batches.pop() if len(batches) == 1 else None,
            "length": lengths.pop() if len(lengths) == 1 else None,
            "bodies": [self._bodies[body] for body in sorted(self._bodies)],
            "kinds": self._kinds,
            "stream": [[*item[:-1], _runs(item[-1])] if item[0] == "layers" else item for item in self._stream],
            "outputs": [self._from(value, end) for value in same([graph.outputs for graph in self._graphs])],
        }

    def _call(self, events: Sequence[Any], top: int) -> int:
        """Adds a call; the number of the next value."""
        call: Call = same(events)
        inner, outer = [i for i, _ in call.inputs], [o for _, o in call.inputs]
        made, outputs = [i for i, _ in call.outputs], [o for _, o in call.outputs]
        is_first = call.body not in self._bodies
        top = max([top, *(number + 1 for number in outer)])
        start = top if is_first else min([*outputs, len(self._graphs[0].values)])
        if self._pending or start > self._cursor:
            self._flush(start)
        self._early = start if self._early is None else self._early
        end = start
        if is_first:
            end = outputs[0] if outputs else max([start, *map(_top, self._graphs[0].bodies[call.body])])
            self._body(call.body, start, end, inner, made)
        if self._inner[call.body] != (inner, made) or outputs != list(range(end, end + len(outputs))):
            raise Inexpressible(f"`{call.module}` is not called as its twins are")
        kind = [call.body, [self._from(value, start) for value in outer]]
        if kind not in self._kinds:
            self._kinds.append(kind)
        self._layer(call.module, self._kinds.index(kind))
        self._cursor = end + len(outputs)
        return self._cursor

    def _layer(self, module: str, kind: int) -> None:
        """Adds a layer to the list of layers that is being written, or begins a new one."""
        prefix, _, index = module.rpartition(".")
        match self._stream[-1:]:
            case [["layers", name, first, kinds]] if name == prefix and first + len(kinds) == int(index):
                kinds.append(kind)
            case _:
                self._stream.append(["layers", prefix, int(index), [kind]])

    def _body(self, body: int, start: int, end: int, inner: list[int], made: list[int]) -> None:
        block = Block(start)
        for value in inner:
            block.place(value)
        content = self._block(block, [graph.bodies[body] for graph in self._graphs], end)
        places = [block.place(value) for value in inner], [block.place(value) for value in made]
        self._bodies[body] = [content, [self._from(value, start) for value in block.outside], *places]
        self._inner[body] = (inner, made)

    def _flush(self, end: int) -> None:
        """Ends the stretch of events since the last layer."""
        block = Block(self._cursor)
        events = [[graph.events[position] for position in self._pending] for graph in self._graphs]
        content = self._block(block, events, end)
        self._stream.append(["block", content, [self._from(value, block.base) for value in block.outside]])
        self._pending = []
        self._cursor = end
        if self._early is None:
            self._early = end

    def _block(self, block: Block, events: Sequence[Sequence[Event]], end: int) -> Json:
        """The events of a block and the values up to number `end`."""
        encoded = [self._encoder.event(each, block) for each in parallel(events)]
        values = zip(*(graph.values[block.base : end] for graph in self._graphs), strict=True)
        return [encoded, [self._encoder.value(each) for each in values]]

    def _from(self, value: int, base: int) -> int:
        """A value from outside as it is written where a block begins with value `base`."""
        early = base if self._early is None else self._early
        return value if value < early else value - base


def _top(event: Event) -> int:
    """One more than the greatest number of a value in an event."""
    return 1 + max(mentioned(event), default=-1)


def _runs(kinds: Sequence[int]) -> list[Json]:
    """A sequence as pairs of a stretch and how often it is repeated: `0 1 1 2 1 1 2` is once `0`, twice `1 1 2`."""
    runs: list[Json] = []
    at = 0
    while at < len(kinds):
        best = (1, 1)
        for width in range(1, min(len(kinds) - at, 24) + 1):
            times = 1
            while kinds[at + times * width : at + (times + 1) * width] == kinds[at : at + width]:
                times += 1
            if times > 1 and times * width > best[0] * best[1]:
                best = (width, times)
        width, times = best
        if times == 1 and runs and runs[-1][1] == 1:
            runs[-1][0].append(kinds[at])
        else:
            runs.append([list(kinds[at : at + width]), times])
        at += width * times
    return runs
