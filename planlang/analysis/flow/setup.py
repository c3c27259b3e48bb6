"""What a walk is about: a forward pass, the styles of its modules, and the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planlang.analysis.flow.cause import Applied
from planlang.model.graph import Call, Graph
from planlang.model.tree import Kind

if TYPE_CHECKING:
    from planlang.analysis.flow.forward import Frame


@dataclass(frozen=True, eq=False)
class Setup:
    """What a walk is about.

    Attributes:
        graph: the forward pass.
        applied: the style of every module that has one, by its full name.
        ranks: the size of the mesh axis.
        kinds: what each module with a style is to torch; by default linear or embedding as its class name says.
        drops: whether the model drops numbers at random in training.
    """

    graph: Graph
    applied: Mapping[str, Applied]
    ranks: int
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    drops: bool = False
    memo: dict[object, Frame] = field(default_factory=dict)
    layers: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        calls = tuple(event.module for event in self.graph.events if isinstance(event, Call))
        object.__setattr__(self, "layers", _alike(calls, self.applied))


def _alike(calls: tuple[str, ...], applied: Mapping[str, Applied]) -> Mapping[str, int]:
    """A number for each layer that is called; those whose modules have the same styles have the same number."""
    global _ALIKE
    if _ALIKE[0] != calls or _ALIKE[1] is not applied:  # the passes of one model differ in neither
        inside: dict[str, list[tuple[str, Applied]]] = {layer: [] for layer in calls}
        for name, each in applied.items():
            above = name
            while above and above not in inside:
                above = above.rpartition(".")[0]
            if above:
                inside[above].append((name[len(above) + 1 :], each))
        numbers: dict[object, int] = {}
        _ALIKE = (calls, applied, {layer: numbers.setdefault(tuple(i), len(numbers)) for layer, i in inside.items()})
    return _ALIKE[2]


_ALIKE: tuple[tuple[str, ...], Mapping[str, Applied], Mapping[str, int]] = ((), {}, {})
