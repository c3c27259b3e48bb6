"""Sets of modules of a tree, exact for any number of layers.

A `Site` is a place of the tree: a path whose list segments are open. A box picks layer numbers for each of them; a
region is, for each site, a list of disjoint boxes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from planlang.indices import IndexSet
from planlang.model.tree import Node, Tree

Box: TypeAlias = tuple[IndexSet, ...]
Region: TypeAlias = dict[int, list[Box]]

_MAGIC = re.compile(r"([*?[])")


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A place of a tree.

    Attributes:
        number: its position in the walk of the tree.
        path: a name or an index set for each segment.
        star: the path as torch's pattern for all of it: `model.layers.*.mlp`.
        node: what stands there.
        whole: the box of everything there is at this site.
    """

    number: int
    path: tuple[str | IndexSet, ...]
    star: str
    node: Node
    whole: Box

    @property
    def shown(self) -> str:
        """How a person reads it; the root has no name of its own."""
        return self.star or "the whole model"


@dataclass(frozen=True, eq=False)
class Sites:
    """The sites of a tree, with what matching needs of their relations."""

    tree: Tree

    @cached_property
    def all(self) -> tuple[Site, ...]:
        """Every site, parents first."""
        found: list[Site] = []
        named = self._named

        def visit(node: Node, path: tuple[str | IndexSet, ...], star: str) -> None:
            whole = tuple(segment for segment in path if isinstance(segment, IndexSet))
            found.append(Site(len(found), path, star, node, whole))
            for child in node.children:
                name = child.name
                segment = literal(name) if isinstance(name, str) else "[0-9]*" if star in named else "*"
                visit(child.node, (*path, child.name), f"{star}.{segment}" if star else segment)

        visit(self.tree.root, (), "")
        return tuple(found)

    @cached_property
    def _named(self) -> frozenset[str]:
        """The star paths below which a name stands beside numbers, be it in another kind of layer."""
        names: set[str] = set()
        level: dict[str, list[Node]] = {"": [self.tree.root]}
        while level:
            below: dict[str, list[Node]] = {}
            for star, places in level.items():
                children = [child for node in dict.fromkeys(places) for child in node.children]
                if any(isinstance(child.name, str) for child in children):
                    names.add(star)
                for child in children:
                    name = child.name
                    segment = literal(name) if isinstance(name, str) else "[0-9]*" if star in names else "*"
                    below.setdefault(f"{star}.{segment}" if star else segment, []).append(child.node)
            level = below
        return frozenset(names)

    def size(self, node: Node) -> int:
        """How many sites a node and all below it take."""
        if node not in self._sizes:
            self._sizes[node] = 1 + sum(self.size(child.node) for child in node.children)
        return self._sizes[node]

    @cached_property
    def _sizes(self) -> dict[Node, int]:
        return {}

    @cached_property
    def existing(self) -> dict[str, list[Box]]:
        """All boxes there are under one star path, over the sites that share it."""
        found: dict[str, list[Box]] = {}
        for site in self.all:
            found.setdefault(site.star, []).append(site.whole)
        return found


def literal(name: str) -> str:
    """The pattern of torch's that matches one name alone: its keys are read by `fnmatch`."""
    return _MAGIC.sub(r"[\1]", name)


def intersect(a: Box, b: Box) -> Box | None:
    """What two boxes of one site share; `None` for nothing."""
    shared = tuple(x & y for x, y in zip(a, b, strict=True))
    return shared if all(shared) else None


def subtract(a: Box, b: Box) -> Iterator[Box]:
    """What is left of `a` without `b`, as disjoint boxes."""
    shared = intersect(a, b)
    if shared is None:
        yield a
        return
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        rest = x - y
        if rest:
            yield (*shared[:i], rest, *a[i + 1 :])


def without(boxes: Iterable[Box], removed: Iterable[Box]) -> list[Box]:
    """What is left of some boxes without others."""
    left = list(boxes)
    for box in removed:
        left = [piece for kept in left for piece in subtract(kept, box)]
    return left


def difference(a: Region, b: Region) -> Region:
    """The region of what is in `a` and not in `b`."""
    found = {number: without(boxes, b.get(number, ())) for number, boxes in a.items()}
    return {number: boxes for number, boxes in found.items() if boxes}


def concrete(site: Site, box: Box) -> Iterator[str]:
    """The full names of the modules of a finite box, in order."""
    numbers = iter(box)
    sets = [next(numbers) if isinstance(segment, IndexSet) else segment for segment in site.path]

    def names(at: int, prefix: str) -> Iterator[str]:
        if at == len(sets):
            yield prefix
            return
        segment = sets[at]
        for name in (segment,) if isinstance(segment, str) else map(str, segment):
            yield from names(at + 1, f"{prefix}.{name}" if prefix else name)

    return names(0, "")
