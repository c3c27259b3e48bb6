"""Alternatives in braces that match nothing, though the pattern as a whole does: `{q,k,w}_proj`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from planlang.analysis.match import region
from planlang.analysis.names import model_text
from planlang.analysis.regions import Sites
from planlang.analysis.suggest import corrected, explained
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, nearest, or_list
from planlang.plan import ir
from planlang.plan.patterns import TooMany, Uncounted
from planlang.source import Source
from planlang.syntax.nodes import Choice, Except, Literal, OfClass, Part, Path, Pattern, Range, Segment, Star
from planlang.syntax.printer import part_text, pattern_text

# Beyond this, alternatives are a list made by a program, and trying each would take long.
MOST_TRIED = 256
MOST_SHOWN = 4


def check_alternatives(plan: ir.Plan, trees: Sequence[Sites]) -> Iterator[Finding]:
    """A warning for each alternative of a rule, and for each `except`, that matches no module of any tree."""
    for entry in plan.entries:
        if not isinstance(entry, ir.Rule) or entry.target.optional or entry.place is None or entry.level:
            continue
        pattern = entry.target.pattern
        if not any(_found(pattern, sites) for sites in trees):
            continue
        yield from _needless_except(pattern, entry.place.source, trees)
        for choice, option, narrowed in islice(_narrowed(pattern), MOST_TRIED):
            if not any(_matches(narrowed, sites) for sites in trees):
                yield _nothing(choice, option, narrowed, entry.place.source, trees[0])


def _needless_except(pattern: Pattern, source: Source, trees: Sequence[Sites]) -> Iterator[Finding]:
    while not isinstance(pattern, Path):
        if isinstance(pattern, Except) and not any(_matches(pattern.without, sites) for sites in trees):
            near = corrected(pattern.without, trees[0])
            message = f"`except {pattern_text(pattern.without)}` takes nothing away: it matches no module"
            help_ = f"did you mean {or_list(near)}?" if near else "remove it"
            place = source.place(pattern.without.span)
            yield Finding(code=codes.UNMATCHED_ALTERNATIVE, message=message, place=place, help=help_)
        pattern = pattern.base


def _nothing(choice: Choice, option: tuple[Part, ...], narrowed: Pattern, source: Source, sites: Sites) -> Finding:
    """The finding about one alternative."""
    place = source.place((option[0] if option else choice).span)
    if len(option) == 1 and isinstance(option[0], Range):
        message = f"`{part_text(option[0])}` reaches beyond the layers that there are"
        return Finding(code=codes.UNMATCHED_ALTERNATIVE, message=message, place=place, help=_layers(narrowed, sites))
    shown = f"`{''.join(map(part_text, option))}`" if option else "the empty alternative"
    message = f"{shown} matches nothing here, though the pattern as a whole does"
    help_ = _instead(choice, option, narrowed, sites)
    return Finding(code=codes.UNMATCHED_ALTERNATIVE, message=message, place=place, help=help_)


def _instead(choice: Choice, option: tuple[Part, ...], narrowed: Pattern, sites: Sites) -> str:
    """What could stand in the braces: the middles of real names that the pattern does not list yet."""
    spelt = part_text(option[0]) if len(option) == 1 else ""
    listed = {"".join(map(part_text, other)) for other in choice.options}
    free = [middle for middle in _middles(option, narrowed, sites) if middle not in listed]
    near = nearest(spelt, free) if spelt else ()
    if near:
        return f"did you mean {or_list(near)}?"
    also = f"; {or_list(free)} would match" if 0 < len(free) <= MOST_SHOWN else ""
    return f"remove it, or mark the pattern with `?`{also}"


def _middles(option: tuple[Part, ...], narrowed: Pattern, sites: Sites) -> list[str]:
    """What could stand for the option so that the pattern matches."""
    base = narrowed
    while not isinstance(base, Path):
        base = base.base
    at = next((i for i, s in enumerate(base.segments) if isinstance(s, Segment) and _holds(s, option)), -1)
    segment = base.segments[at]
    if at < 0 or not isinstance(segment, Segment) or not option:
        return []
    start = next(i for i in range(len(segment.parts)) if segment.parts[i : i + len(option)] == option)
    head = "".join(map(part_text, segment.parts[:start]))
    tail = "".join(map(part_text, segment.parts[start + len(option) :]))
    star = replace(segment, parts=(Star(),))
    wider = replace(base, segments=(*base.segments[:at], star, *base.segments[at + 1 :]))
    names = {sites.all[number].path[at - len(base.segments)] for number in region(wider, sites)}
    fitting = (n for n in names if isinstance(n, str) and n.startswith(head) and n.endswith(tail))
    return sorted(name[len(head) : len(name) - len(tail)] for name in fitting if len(name) > len(head) + len(tail))


def _holds(segment: Segment, option: tuple[Part, ...]) -> bool:
    return any(segment.parts[i : i + len(option)] == option for i in range(len(segment.parts)))


def _layers(pattern: Pattern, sites: Sites) -> str:
    lengths = {site.node.length for site in sites.all if site.node.length}
    if len(lengths) == 1:
        (length,) = lengths
        return f"{model_text(sites.tree)} has {length} layers, 0 to {length - 1}"
    return explained(pattern, sites)


def _matches(pattern: Pattern, sites: Sites) -> bool:
    """Whether a pattern matches; one that cannot be counted has a finding of its own."""
    try:
        return bool(region(pattern, sites))
    except (Uncounted, TooMany):
        return True


def _found(pattern: Pattern, sites: Sites) -> bool:
    """Whether a pattern can be counted, and matches."""
    try:
        return bool(region(pattern, sites))
    except (Uncounted, TooMany):
        return False


def _narrowed(pattern: Pattern) -> Iterator[tuple[Choice, tuple[Part, ...], Pattern]]:
    """The pattern with one choice narrowed to one option, for each choice and option."""
    match pattern:
        case OfClass() | Except():
            for choice, option, base in _narrowed(pattern.base):
                yield choice, option, replace(pattern, base=base)
        case Path():
            for i, segment in enumerate(pattern.segments):
                if not isinstance(segment, Segment):
                    continue
                for j, part in enumerate(segment.parts):
                    if isinstance(part, Choice):
                        for option in part.options:
                            for narrowed in _ends(option):
                                parts = (*segment.parts[:j], *narrowed, *segment.parts[j + 1 :])
                                segments = (
                                    *pattern.segments[:i],
                                    replace(segment, parts=parts),
                                    *pattern.segments[i + 1 :],
                                )
                                yield part, option, replace(pattern, segments=segments)


def _ends(option: tuple[Part, ...]) -> Iterator[tuple[Part, ...]]:
    """The option; for a range its two ends, so that one that reaches beyond the last layer is seen."""
    match option:
        case (Range(first=first, last=last) as numbers,):
            top = last if (first < 0) != (last < 0) else first + (last - first) // numbers.step * numbers.step
            for end in dict.fromkeys((first, top)):
                if end < 0:
                    yield (replace(numbers, first=end, last=end, step=1),)
                else:
                    yield (Literal(text=str(end), span=numbers.span),)
        case _:
            yield option
