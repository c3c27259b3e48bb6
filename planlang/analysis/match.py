"""Which modules a pattern means.

A tree is walked once for each pattern, with the set of pattern positions that are possible so far. At a list of layers
the set is worked out for ranges of layers together, so 94 layers cost what one costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from planlang.analysis.regions import Box, Region, Site, Sites, difference
from planlang.indices import IndexSet
from planlang.model.tree import Node
from planlang.plan.patterns import indices, matches
from planlang.syntax.nodes import AnyDepth, Except, OfClass, Path, Pattern, Segment, Star


def region(pattern: Pattern, sites: Sites) -> Region:
    """The modules that a pattern matches.

    Raises:
        Uncounted, TooMany: see `planlang.plan.patterns`.
    """
    match pattern:
        case Path():
            return _path(pattern, sites)
        case Except():
            return difference(region(pattern.base, sites), region(pattern.without, sites))
        case OfClass():
            found = region(pattern.base, sites)
            return {
                number: boxes for number, boxes in found.items() if is_class(sites.all[number].node, pattern.cls.text)
            }
        case _:
            assert_never(pattern)


def may_be_below(pattern: Pattern, name: str) -> bool:
    """Whether a pattern names a module `name`, of which no tree is known, or something in it."""
    match pattern:
        case Path():
            segments = name.split(".")
            return any(
                isinstance(segment, Segment) and not _any_name(segment) and matches(segment, segments[-1])
                for segment in pattern.segments
            )
        case Except() | OfClass():
            return may_be_below(pattern.base, name)
        case _:
            assert_never(pattern)


def _any_name(segment: Segment) -> bool:
    return all(isinstance(part, Star) for part in segment.parts)


def is_class(node: Node, name: str) -> bool:
    """Whether a module is of a class of that name, or of one derived from it."""
    return name == node.cls or name in node.bases


def _path(path: Path, sites: Sites) -> Region:
    found: Region = {}
    segments = path.segments
    last = len(segments)

    def closure(positions: Iterator[int]) -> frozenset[int]:
        """The positions, and those behind a `**` that matches nothing."""
        reached: set[int] = set()
        for position in positions:
            while position not in reached:
                reached.add(position)
                if position == last or not isinstance(segments[position], AnyDepth):
                    break
                position += 1
        return frozenset(reached)

    def visit(number: int, positions: frozenset[int], box: Box) -> None:
        """Collects at a site and below it; a site's children are numbered right behind it."""
        site: Site = sites.all[number]
        if last in positions:
            found.setdefault(number, []).append(box)
        going = sorted(position for position in positions if position < last)
        following = number + 1
        for child in site.node.children:
            if going:
                if isinstance(child.name, str):
                    after = closure(_advance(segments, going, child.name))
                    if after:
                        visit(following, after, box)
                else:
                    for numbers, reached in _split(segments, going, child.name, site.node.length):
                        visit(following, closure(iter(reached)), (*box, numbers))
            following += sites.size(child.node)

    visit(0, closure(iter([0])), ())
    return found


def _advance(segments: tuple[Segment | AnyDepth, ...], positions: list[int], name: str) -> Iterator[int]:
    for position in positions:
        segment = segments[position]
        if isinstance(segment, AnyDepth):
            yield position
        elif matches(segment, name, 0):  # a name is in no list, so no number counts from a list's end
            yield position + 1


def _split(
    segments: tuple[Segment | AnyDepth, ...], positions: list[int], among: IndexSet, length: int | None
) -> list[tuple[IndexSet, frozenset[int]]]:
    """`among` cut into the sets of layers from which the same positions are reached, where any is."""
    stay = frozenset(position for position in positions if isinstance(segments[position], AnyDepth))
    pieces: list[tuple[IndexSet, frozenset[int]]] = [(among, stay)]
    for position in positions:
        segment = segments[position]
        if isinstance(segment, AnyDepth):
            continue
        taken = indices(segment, among, length)
        cut = []
        for numbers, reached in pieces:
            cut.append((numbers & taken, reached | {position + 1}))
            cut.append((numbers - taken, reached))
        pieces = [(numbers, reached) for numbers, reached in cut if numbers]
    return [(numbers, reached) for numbers, reached in pieces if reached]
