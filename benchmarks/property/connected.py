"""Which modules of a model are directly connected: one's tensor reaches the other, or both meet in an operator."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache

from benchmarks.truth.case import shared
from planlang.analysis.flow.words import star
from planlang.model.graph import Call, Enter, Event, Graph, Guard, Leave, Op, refs
from planlang.model.trace import trace

Sources = frozenset[str]
NONE: Sources = frozenset()


def connected(twin: str, entries: Collection[str]) -> frozenset[tuple[str, str]]:
    """Pairs of modules, both ways round.

    A tensor comes from the module with an entry that last had it in hands: other modules, and operators between, hand
    on what they get.

    Args:
        twin: a key of `twins.TWINS`.
        entries: the modules that have an entry, in star form.
    """
    return _connected(twin, frozenset(entries))


@cache
def _connected(twin: str, entries: frozenset[str]) -> frozenset[tuple[str, str]]:
    walk = _Walk(_graph(twin), entries)
    walk.run(walk.graph.events, "")
    return frozenset(walk.found | {(other, one) for one, other in walk.found})


class _Walk:
    """Follows where the tensors of a pass come from."""

    def __init__(self, graph: Graph, entries: Sources) -> None:
        self.graph, self.entries = graph, entries
        self.found: set[tuple[str, str]] = set()
        self.sources: dict[int, Sources] = {}
        self.inside: list[tuple[str, dict[int, Sources]]] = []

    def run(self, events: Iterable[Event], prefix: str) -> None:
        """All events; the names in them stand behind `prefix`."""
        for event in events:
            match event:
                case Op():
                    self._op(event)
                case Enter():
                    self._enter(event, ".".join(filter(None, (prefix, event.module))))
                case Leave():
                    self._leave(event)
                case Call():
                    self.sources |= {inner: self.sources.get(outer, NONE) for inner, outer in event.inputs}
                    self.run(self.graph.bodies[event.body], event.module)
                    self.sources |= {outer: self.sources.get(inner, NONE) for inner, outer in event.outputs}
                case Guard():
                    pass

    def _of(self, *arguments: object) -> Sources:
        return NONE.union(*(self.sources.get(value, NONE) for value in refs(arguments)))

    def _meet(self, those: Sources, others: Sources) -> None:
        self.found.update((one, other) for one in those for other in others if one != other)

    def _op(self, op: Op) -> None:
        met = self._of(op.args, *(each for _, each in op.kwargs))
        self._meet(met, met)
        self.sources |= dict.fromkeys(op.outs, met)

    def _enter(self, event: Enter, name: str) -> None:
        module, arguments = star(name), (event.args, *(each for _, each in event.kwargs))
        values = list(refs(arguments))
        self.inside.append((module, {value: self.sources.get(value, NONE) for value in values}))
        if module in self.entries:
            own = frozenset({module})
            self._meet(own, self._of(*arguments))
            self.sources |= dict.fromkeys(values, own)

    def _leave(self, event: Leave) -> None:
        module, before = self.inside.pop()
        if module in self.entries:
            own = frozenset({module})
            self._meet(own, self._of(event.outs))
            self.sources |= before | dict.fromkeys(refs(event.outs), own)


@cache
def _graph(twin: str) -> Graph:
    twins = shared("twins")
    return trace(twins.make(twin), twins.inputs(twin), batch=3, length=10)
