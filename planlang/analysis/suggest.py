"""What a pattern that matches nothing was likely meant to be; every suggestion is matched before it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile

from planlang.analysis.match import region
from planlang.analysis.regions import Sites
from planlang.diagnostics.finding import nearest, or_list
from planlang.indices import IndexSet
from planlang.model.tree import Kind, Node
from planlang.plan.patterns import TooMany, Uncounted, matches
from planlang.syntax.nodes import AnyDepth, Choice, Except, Literal, OfClass, Part, Path, Pattern, Range, Segment, Star
from planlang.syntax.printer import pattern_text

MOST_TRIED = 24
MOST_SPELLINGS = 16

# Projections that some models hold in one module and others apart.
_PACKED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "kv_proj": ("k_proj", "v_proj"),
}


def corrected(pattern: Pattern, sites: Sites) -> tuple[str, ...]:
    """Up to three patterns near to this one that do match, as text, best first."""
    match pattern:
        case OfClass():
            names = {name for site in sites.all for name in (site.node.cls, *site.node.bases)}
            near = [name for name in names if name.endswith(pattern.cls.text)] or nearest(pattern.cls.text, names)
            respelt = [replace(pattern, cls=replace(pattern.cls, text=name)) for name in sorted(near)]
            return _matching(iter(respelt), sites)
        case Except():
            return ()
        case Path():
            return _matching(_candidates(pattern, sites), sites) or _paths(pattern, sites)


def explained(pattern: Pattern, sites: Sites) -> str:
    """Why a pattern matches nothing, where no near one does."""
    base = pattern
    while not isinstance(base, Path):
        base = base.base
    if base.segments and _spelt(base.segments[-1]) in ("weight", "bias") and len(base.segments) > 1:
        shorter = replace(base, segments=base.segments[:-1])
        return f"rules name modules, not their parameters: write `{pattern_text(shorter)}`"
    for end in range(len(base.segments) - 1, 0, -1):
        begun = replace(base, segments=base.segments[:end])
        try:
            found = region(begun, sites)
        except (Uncounted, TooMany):
            break
        last = begun.segments[-1]
        if found and isinstance(last, Segment) and last.parts != (Star(),):
            return _inside(begun, sites.all[min(found)].node)
    return "mark it with `?` if it may match nothing"


def _inside(begun: Path, node: Node) -> str:
    """What there is below the part of a pattern that does match."""
    shown = f"`{pattern_text(begun)}`"
    if node.parameters:
        own = or_list(parameter.name for parameter in node.parameters).replace(" or ", " and ")
        if node.kind in (Kind.LINEAR, Kind.EMBEDDING, Kind.NORM):
            return f"{shown} holds {own} itself, as parameters: write the rule for it"
        return f"{shown} holds {own} as parameters of its own, and no built-in style shards those"
    if not node.children:
        return f"{shown} has nothing inside: mark the pattern with `?` if it may match nothing"
    names = [child.name for child in node.children if isinstance(child.name, str)]
    if names:
        return f"{shown} holds {or_list(names).replace(' or ', ' and ')}"
    last = (node.length or 1) - 1
    return f"{shown} has {last + 1} members, 0 to {last}" if node.length else f"{shown} is a list: name its members"


def _matching(patterns: Iterator[Pattern], sites: Sites) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for pattern in islice(patterns, MOST_TRIED):
        try:
            if region(pattern, sites):
                found[pattern_text(pattern)] = None
        except (Uncounted, TooMany):
            continue
        if len(found) == 3:
            break
    return tuple(found)


def _candidates(path: Path, sites: Sites) -> Iterator[Path]:
    """Near patterns, the likeliest first: spelling, depth, place."""
    yield from _respelt(path, sites)
    for i, segment in enumerate(path.segments):
        if isinstance(segment, Segment) and segment.parts == (
            Star(),
        ):  # torch's reading of `*` needs as many as there are
            yield replace(path, segments=(*path.segments[:i], AnyDepth(), *path.segments[i + 1 :]))
    yield from _relocated(path, sites)


def _respelt(path: Path, sites: Sites) -> Iterator[Path]:
    """The path with what occurs nowhere spelt as something that does."""
    names = {name for site in sites.all for name in site.path if isinstance(name, str)}
    choices: list[list[Segment | AnyDepth]] = []
    for segment in path.segments:
        wrong = isinstance(segment, Segment) and not any(matches(segment, name, 1) for name in names)
        choices.append(_near_segments(segment, names) if wrong and isinstance(segment, Segment) else [segment])
    for i in range(max(map(len, choices), default=0)):
        segments = tuple(options[min(i, len(options) - 1)] for options in choices)
        if segments != path.segments:
            yield replace(path, segments=segments)


def _near_segments(segment: Segment, names: set[str]) -> list[Segment | AnyDepth]:
    """Segments that a misspelt one may stand for; braces are kept."""
    spelt = list(islice(_spellings(segment.parts), MOST_SPELLINGS + 1))
    if not spelt or len(spelt) > MOST_SPELLINGS or any(name.isdigit() for name in spelt):
        return [segment]
    if len(spelt) > 1:
        near = [nearest(name, names, 1) for name in spelt]
        return [_union([found[0] for found in near])] if all(near) else [segment]
    packed = _PACKED.get(spelt[0], ())
    if packed and names.issuperset(packed):
        return [_union(list(packed))]
    return [_union([name]) for name in nearest(spelt[0], names)] or [segment]


def _spellings(parts: tuple[Part, ...]) -> Iterator[str]:
    """The names that parts match, in the order written; nothing where there is a `*` or a range in them."""
    if not parts:
        yield ""
        return
    match parts[0]:
        case Literal(text=text):
            heads = iter((text,))
        case Choice(options=options):
            heads = (head for option in options for head in _spellings(option))
        case _:
            return
    for head in heads:
        for rest in _spellings(parts[1:]):
            yield head + rest


def _union(names: list[str]) -> Segment:
    """One segment for several names: what they begin or end with in common stands outside the braces."""
    names = list(dict.fromkeys(names))
    if len(names) == 1:
        return Segment(parts=(Literal(text=names[0]),))
    head = _common(names)
    rest = [name[len(head) :] for name in names]
    tail = _common([name[::-1] for name in rest])[::-1]
    options = tuple((Literal(text=name[: len(name) - len(tail)]),) for name in rest)
    parts: tuple[Part, ...] = (Literal(text=head), Choice(options=options), Literal(text=tail))
    return Segment(parts=tuple(part for part in parts if not isinstance(part, Literal) or part.text))


def _common(names: list[str]) -> str:
    """What all names begin with."""
    shared = [chars[0] for chars in takewhile(lambda chars: len(set(chars)) == 1, zip(*names, strict=False))]
    return "".join(shared)


def _relocated(path: Path, sites: Sites) -> Iterator[Path]:
    """The path below what it really is below: with the beginning it lacks, or without one that is wrong."""
    segments = path.segments
    for skipped in range(len(segments)):
        tail = segments[skipped:]
        if (
            not isinstance(tail[0], Segment)
            or tail[0].parts == (Star(),)
            or (skipped and _ranged(segments[skipped - 1]))
        ):
            break
        anywhere = replace(path, segments=(AnyDepth(), *tail)) if len(tail) > 0 else path
        try:
            found = region(anywhere, sites)
        except (Uncounted, TooMany):
            break
        for number in sorted(found)[:1]:
            above = sites.all[number].path
            for depth in range(len(above)):
                begin = tuple(_exactly(name) for name in above[:depth])
                yield replace(path, segments=(*begin, *tail))


def _exactly(name: str | IndexSet) -> Segment:
    return Segment(parts=(Literal(text=name),)) if isinstance(name, str) else Segment(parts=(Star(),))


def _paths(path: Path, sites: Sites) -> tuple[str, ...]:
    """Real module paths that read like the pattern, if it could name one module."""
    if any(not isinstance(segment, Segment) or _ranged(segment) for segment in path.segments):
        return ()
    stars = {site.star for site in sites.all if site.star.count(".") == len(path.segments) - 1}
    return nearest(pattern_text(path), stars)


def _ranged(segment: Segment | AnyDepth) -> bool:
    """Whether a segment means layers by number."""
    if isinstance(segment, AnyDepth):
        return False
    parts = [
        part for choice in segment.parts if isinstance(choice, Choice) for option in choice.options for part in option
    ]
    return any(isinstance(part, Range) for part in parts) or _spelt(segment).isdigit()


def _spelt(segment: Segment | AnyDepth) -> str:
    """A segment without wildcards as text."""
    if isinstance(segment, Segment) and len(segment.parts) == 1 and isinstance(segment.parts[0], Literal):
        return segment.parts[0].text
    return ""
