"""What a pattern that matches nothing was likely meant to be; every suggestion is matched before it is made."""

from __future__ import annotations

from dataclasses import replace

from planlang.analysis.match import region
from planlang.analysis.regions import Sites
from planlang.diagnostics.finding import nearest
from planlang.plan.patterns import TooMany, Uncounted, matches
from planlang.syntax.nodes import AnyDepth, Choice, Except, Literal, OfClass, Part, Path, Pattern, Segment
from planlang.syntax.printer import pattern_text

MOST_TRIED = 12


def corrected(pattern: Pattern, sites: Sites) -> tuple[str, ...]:
    """Up to three patterns near to this one that do match, as text, best first."""
    match pattern:
        case OfClass():
            names = {name for site in sites.all for name in (site.node.cls, *site.node.bases)}
            near = [replace(pattern, cls=replace(pattern.cls, text=name)) for name in nearest(pattern.cls.text, names)]
            return _matching([*near, pattern.base], sites)
        case Except():
            return ()
        case Path():
            return _matching([*_respelt(pattern, sites), *_relocated(pattern, sites)], sites) or _paths(pattern, sites)


def _matching(patterns: list[Pattern], sites: Sites) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for pattern in patterns[:MOST_TRIED]:
        try:
            if region(pattern, sites):
                found[pattern_text(pattern)] = None
        except (Uncounted, TooMany):
            continue
    return tuple(found)[:3]


def _respelt(path: Path, sites: Sites) -> list[Pattern]:
    """The path with a segment that occurs nowhere spelt as one that does."""
    names = {name for site in sites.all for name in site.path if isinstance(name, str)}
    numbered = any(site.whole for site in sites.all)
    candidates: list[list[Segment | AnyDepth]] = [[]]
    for segment in path.segments:
        options: list[Segment | AnyDepth] = [segment]
        if isinstance(segment, Segment) and not any(matches(segment, name, 1) for name in names):
            spelt = _text(segment.parts)
            if not (numbered and spelt.isdigit()) and spelt:
                options = [*map(_literal, nearest(spelt, names)), segment]
        candidates = [[*begun, option] for begun in candidates for option in options][:MOST_TRIED]
    return [replace(path, segments=tuple(segments)) for segments in candidates]


def _relocated(path: Path, sites: Sites) -> list[Pattern]:
    """The path with the beginning it lacks, or below whatever it is below: `layers.*` for `model.layers.*`."""
    segments = path.segments
    tops = dict.fromkeys(site.path[0] for site in sites.all if site.path and isinstance(site.path[0], str))
    found: list[Pattern] = [replace(path, segments=(_literal(top), *segments)) for top in tops]
    if len(segments) > 1 and not isinstance(segments[0], AnyDepth):
        found.append(replace(path, segments=(AnyDepth(), *segments[1:])))
        found.append(replace(path, segments=(segments[0], AnyDepth(), *segments[1:])))
    return found


def _paths(path: Path, sites: Sites) -> tuple[str, ...]:
    """Real module paths that read like the pattern."""
    stars = {site.star for site in sites.all if site.star}
    return nearest(pattern_text(path), stars)


def _literal(name: str) -> Segment:
    return Segment(parts=(Literal(text=name),))


def _text(parts: tuple[Part, ...]) -> str:
    """A segment as a word that can be compared: the first of each choice."""
    return "".join(
        part.text if isinstance(part, Literal) else _text(part.options[0]) if isinstance(part, Choice) else ""
        for part in parts
    )
