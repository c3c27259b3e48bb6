"""Alternatives in braces that match nothing, though the pattern as a whole does: `{q,k,w}_proj`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planlang.analysis.match import region
from planlang.analysis.regions import Sites
from planlang.analysis.suggest import corrected
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, or_list
from planlang.plan import ir
from planlang.plan.patterns import TooMany, Uncounted
from planlang.syntax.nodes import Choice, Except, Literal, OfClass, Part, Path, Pattern, Range, Segment
from planlang.syntax.printer import pattern_text

# Beyond this, alternatives are a list made by a program, and trying each would take long.
MOST_TRIED = 256


def check_alternatives(plan: ir.Plan, trees: Sequence[Sites]) -> Iterator[Finding]:
    """A warning for each alternative of a rule that matches no module of any tree."""
    for entry in plan.entries:
        if not isinstance(entry, ir.Rule) or entry.target.optional or entry.place is None:
            continue
        tried = 0
        for choice, option, pattern in _narrowed(entry.target.pattern):
            tried += 1
            if tried > MOST_TRIED:
                break
            if any(_matches(pattern, sites) for sites in trees) or not _matches_any(entry.target.pattern, trees):
                continue
            near = corrected(pattern, trees[0])
            shown = pattern_text(Path(segments=(Segment(parts=option),))) if option else "the empty alternative"
            place = entry.place.source.place((option[0] if option else choice).span)
            help_ = f"did you mean {or_list(near)}?" if near else "remove it, or mark the pattern with `?`"
            message = f"`{shown}` matches nothing here, though the pattern as a whole does"
            yield Finding(code=codes.UNMATCHED_ALTERNATIVE, message=message, place=place, help=help_)


def _matches(pattern: Pattern, sites: Sites) -> bool:
    try:
        return bool(region(pattern, sites))
    except (Uncounted, TooMany):
        return True


def _matches_any(pattern: Pattern, trees: Sequence[Sites]) -> bool:
    return any(_matches(pattern, sites) for sites in trees)


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
