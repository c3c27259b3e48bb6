"""What every rank holds of a model's parameters, their gradients and the optimizer's state.

From the module tree and the plan alone. Activations, buffers and what data parallelism shards beside are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from planlang.analysis.assign import Assignment, Piece
from planlang.analysis.coverage import placement
from planlang.analysis.regions import Box, Site, intersect, without
from planlang.layout import Layout, Shard, local_shape
from planlang.model.tree import Parameter
from planlang.plan.styles import Custom, Replicated, axis_of
from planlang.plan.styles import Sequence as SequenceStyle

ADAMW = 8  # bytes of state for each number: two moments in float32

Kept = Literal["sharded", "replicated", "plain", "custom"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Parameters of one name pattern that are laid out alike.

    Attributes:
        name: the pattern, `model.layers.*.mlp.gate_proj.weight`.
        shape: of one of them, on a single device.
        layout: how it is laid out; `None` for a plain tensor, and where only a custom style knows.
        axis: the mesh axis that cuts or replicates it.
        kept: `sharded`; `replicated`, a DTensor that every rank has whole; `plain`, a tensor that no rule places, whole
            on every rank; `custom`, taken for whole since only a custom style knows.
        count: how many there are.
        numbers: how many numbers all of them hold on a single device.
        largest: how many of these the rank with the most holds.
        smallest: how many the rank with the fewest holds.
    """

    name: str
    shape: tuple[int, ...]
    layout: Layout | None
    axis: str | None
    kept: Kept
    count: int
    numbers: int
    largest: int
    smallest: int


@dataclass(frozen=True, slots=True)
class Memory:
    """All parameters.

    Attributes:
        held: by pattern, what takes most on a rank first.
        width: bytes of a number of the parameters and gradients.
    """

    held: tuple[Held, ...]
    width: int

    @property
    def numbers(self) -> int:
        """How many numbers the model's parameters hold on a single device."""
        return sum(each.numbers for each in self.held)

    @property
    def largest(self) -> int:
        """How many numbers the rank with the most holds: the first, since no part is longer than that of rank 0."""
        return sum(each.largest for each in self.held)

    @property
    def smallest(self) -> int:
        """How many numbers the rank with the fewest holds: the last."""
        return sum(each.smallest for each in self.held)

    @property
    def whole(self) -> tuple[Held, ...]:
        """What stays whole on every rank."""
        return tuple(each for each in self.held if each.kept != "sharded")

    def bytes_of(self, numbers: int) -> tuple[int, int, int]:
        """Bytes of as many parameters, of their gradients, and of AdamW's two moments in float32."""
        return numbers * self.width, numbers * self.width, numbers * ADAMW


_Place = tuple[Layout | None, str | None, Kept]


def memory(assignment: Assignment, sizes: Mapping[str, int], width: int) -> Memory:
    """What every rank holds.

    Args:
        assignment: the rules of a model's modules; all sizes of its tree are known.
        sizes: how many ranks each mesh axis has.
        width: bytes of a number of the parameters and gradients.
    """
    found: dict[tuple[object, ...], Held] = {}
    layouts = _Layouts(assignment)
    for site in assignment.sites.all:
        for parameter in site.node.parameters:
            name = _name(site, parameter)
            if any(name in group[1:] for group in assignment.sites.tree.tied):
                continue
            for box, place in layouts.kept(site, parameter):
                made = _held(name, parameter, box, place, sizes)
                key = (name, made.shape, made.layout, made.axis, made.kept)
                found[key] = _joined(found[key], made) if key in found else made
    return Memory(tuple(sorted(found.values(), key=lambda each: (-each.largest, each.name))), width)


def _name(site: Site, parameter: Parameter) -> str:
    return f"{site.star}.{parameter.name}" if site.star else parameter.name


class _Layouts:
    """How a plan lays the parameters of a tree out."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._by_path = {site.path: site for site in assignment.sites.all}

    def kept(self, site: Site, parameter: Parameter) -> Iterator[tuple[Box, _Place]]:
        """A site's modules; of tied parameters `planlang.parallelize` keeps the first that a rule places."""
        places = list(self._places(site, parameter))
        own = _name(site, parameter)
        tied = next((group[1:] for group in self._assignment.sites.tree.tied if group[0] == own), ())
        if tied and all(kept == "plain" for _, (_, _, kept) in places):
            twins = ((each, twin) for each in self._by_path.values() for twin in each.node.parameters)
            theirs = (
                place
                for each, twin in twins
                if _name(each, twin) in tied
                for _, place in self._places(each, twin)
                if place[2] != "plain"
            )
            place = next(theirs, None)
            if place:
                places = [(box, place) for box, _ in places]
        yield from places

    def _places(self, site: Site, parameter: Parameter) -> Iterator[tuple[Box, _Place]]:
        """The same without ties: a module's own rule places its parameters, or one that takes all below it."""
        left = [site.whole]
        for end in range(len(site.path), -1, -1):
            above = self._by_path[site.path[:end]]
            rest = site.whole[len(above.whole) :]
            taken: list[Box] = []
            for piece in self._assignment.rule_of(above):
                place = _place(piece, above, site, parameter)
                if place is None:
                    continue
                box = (*piece.box, *rest)
                taken.append(box)
                yield from ((shared, place) for each in left if (shared := intersect(each, box)) is not None)
            left = without(left, taken)
        yield from ((box, (None, None, "plain")) for box in left)


def _place(piece: Piece, above: Site, site: Site, parameter: Parameter) -> _Place | None:
    """What a rule makes of a parameter; `None` where it leaves it alone."""
    style = piece.rule.style
    if above is not site and not isinstance(style, Replicated | SequenceStyle):
        return None
    if isinstance(style, Custom):
        return None, style.axis, "custom"
    layout = placement(style, site.node, parameter)
    if layout is None:
        return None
    cut = isinstance(layout, Shard) and layout.dim < len(parameter.shape)
    return layout, axis_of(style), "sharded" if cut else "replicated"


def _held(name: str, parameter: Parameter, box: Box, place: _Place, sizes: Mapping[str, int]) -> Held:
    layout, axis, kept = place
    ranks = sizes.get(axis or "", 1)
    count = prod(map(len, box))

    def on(rank: int) -> int:
        shape = local_shape(parameter.shape, layout, ranks, rank) if kept == "sharded" and layout else parameter.shape
        return prod(shape) * count

    return Held(
        name=name,
        shape=parameter.shape,
        layout=layout,
        axis=axis,
        kept=kept,
        count=count,
        numbers=parameter.size * count,
        largest=on(0),
        smallest=on(ranks - 1),
    )


def _joined(a: Held, b: Held) -> Held:
    """Parameters of one pattern that stand at several places of the tree."""
    return Held(
        name=a.name,
        shape=a.shape,
        layout=a.layout,
        axis=a.axis,
        kept=a.kept,
        count=a.count + b.count,
        numbers=a.numbers + b.numbers,
        largest=a.largest + b.largest,
        smallest=a.smallest + b.smallest,
    )
