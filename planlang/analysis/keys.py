"""The keys under which torch finds the modules of a plan: one `fnmatch` pattern a segment, disjoint.

`parallelize_module` reads `*` as one segment and refuses a module that two keys reach, so what a plan says of single
layers must not be covered by what it says of all. Where every layer follows one rule the key has a `*`; elsewhere
layers are named one by one, or, where their number is open, by character classes: all numbers but 0 to 3 are `[4-9]`
and `??*`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from planlang.analysis.assign import Assignment
from planlang.analysis.regions import Box, Site, literal, without
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.indices import IndexSet
from planlang.plan import ir


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """One key of torch's plan.

    Attributes:
        key: the pattern.
        rule: the rule behind it.
        site: where in the tree; of several sites that share the path (layers of two kinds), the first.
        box: which modules of the site.
    """

    key: str
    rule: ir.Rule
    site: Site
    box: Box


def keys(assignment: Assignment) -> list[Keyed]:
    """The keys of a tree, in the order of the plan's rules and, for one rule, of the model's modules."""
    sites = assignment.sites
    grouped: dict[tuple[int, str], list[tuple[Site, Box]]] = {}
    order = {id(rule): i for i, (rule, _) in enumerate(assignment.reached)}
    for site in sites.all:
        for piece in assignment.rule_of(site):
            grouped.setdefault((order[id(piece.rule)], site.star), []).append((site, piece.box))
    found: list[Keyed] = []
    for (number, star), places in sorted(grouped.items(), key=lambda item: (item[0][0], item[1][0][0].number)):
        rule = assignment.reached[number][0]
        assert isinstance(rule, ir.Rule)
        boxes = [box for _, box in places]
        existing = sites.existing[star]
        if not without(existing, boxes):
            found.append(Keyed(key=star, rule=rule, site=places[0][0], box=places[0][1]))
            continue
        for site, box in places:
            found.extend(Keyed(key=key, rule=rule, site=site, box=box) for key in _concrete(site, box, existing))
    return found


def _concrete(site: Site, box: Box, existing: list[Box]) -> Iterator[str]:
    """Keys for a part of what stands under one path: `*` only for the lists of which every member is meant."""
    stars = site.star.split(".")
    options: list[list[str]] = []
    at = 0
    for segment, star in zip(site.path, stars, strict=True):
        if isinstance(segment, str):
            options.append([literal(segment)])
            continue
        everything = [other[at] for other in existing]
        if all(not (whole - box[at]) for whole in everything):
            options.append([star])
        else:
            # Beside children with names, `?` must not reach those.
            options.append([glob if star == "*" else glob.replace("?", "[0-9]") for glob in globs(box[at])])
        at += 1
    for combination in product(*options):
        yield ".".join(combination)


def globs(numbers: IndexSet) -> list[str]:
    """Disjoint `fnmatch` patterns for a set of layer numbers; numbers are written without leading zeros."""
    if numbers.finite:
        return [str(number) for number in numbers]
    excluded = sorted(map(str, numbers.members))
    longest = max(map(len, excluded), default=0)
    found: list[str] = []
    for length in range(1, longest + 1):
        found += _others([text for text in excluded if len(text) == length], length)
    return [*found, "?" * (longest + 1) + "*"]


def _others(excluded: list[str], length: int) -> list[str]:
    """Patterns for every text of `length` digits that is not among `excluded`."""
    if not excluded:
        return ["?" * length]
    heads = {text[0] for text in excluded}
    found = []
    free = [digit for digit in "0123456789" if digit not in heads]
    if free:
        found.append(_digits(free) + "?" * (length - 1))
    if length > 1:
        for head in sorted(heads):
            tails = [text[1:] for text in excluded if text[0] == head]
            found += [head + tail for tail in _others(tails, length - 1)]
    return found


def _digits(digits: list[str]) -> str:
    """A character class: `[4-9]`, `[0-13]`, or the digit itself where it is one."""
    if len(digits) == 1:
        return digits[0]
    runs: list[list[str]] = []
    for digit in digits:
        if runs and ord(digit) == ord(runs[-1][-1]) + 1:
            runs[-1].append(digit)
        else:
            runs.append([digit])
    return (
        "["
        + "".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" if len(run) > 2 else "".join(run) for run in runs)
        + "]"
    )


def merged_keys(assignments: Sequence[Assignment]) -> tuple[tuple[Keyed, ...], list[Finding]]:
    """The keys of several classes together, in the order of the plan; a finding where one key must mean two things."""
    merged: dict[str, Keyed] = {}
    findings: list[Finding] = []
    own = [keys(assignment) for assignment in assignments]
    for keyed in (each for group in own for each in group):
        merged.setdefault(keyed.key, keyed)
    for assignment, group in zip(assignments, own, strict=True):
        mine = {keyed.key: keyed for keyed in group}
        for key, keyed in merged.items():
            here = mine.get(key)
            if (here is None and keyed.site.star in assignment.sites.existing) or (
                here and here.rule is not keyed.rule
            ):
                findings.append(_clash(keyed, assignment))
    rules = [id(entry) for entry, _ in assignments[0].reached] if assignments else []
    order = {rule: i for i, rule in enumerate(rules)}
    ordered = sorted(merged.values(), key=lambda keyed: order.get(id(keyed.rule), len(order)))
    return tuple(ordered), findings


def _clash(keyed: Keyed, assignment: Assignment) -> Finding:
    return Finding(
        code=codes.CLASSES_DIFFER,
        message=f"`{keyed.key}` follows this rule in one class of the plan and not in `{assignment.sites.tree.cls}`",
        place=keyed.rule.place,
        help="compile with `--model`, or write a plan for each class",
    )
