"""Gives every module its rule: order, `override`, inheritance and `drop` are settled here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from planlang.analysis.match import region
from planlang.analysis.regions import Box, Region, Site, Sites, intersect, without
from planlang.analysis.suggest import corrected
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, Related, or_list
from planlang.plan import ir
from planlang.plan.patterns import TooMany, Uncounted
from planlang.source import Place
from planlang.syntax.nodes import Node, Target


@dataclass(frozen=True, slots=True)
class Piece:
    """Modules of one site that follow one rule."""

    box: Box
    rule: ir.Rule


@dataclass(slots=True)
class Assignment:
    """The rules of a tree's modules.

    Attributes:
        sites: the tree.
        pieces: for each site, disjoint pieces; what is in none has no rule.
        reached: how each entry matched before anything was replaced, in the order of the plan.
        unmatched: the entries that match nothing, though they should.
        findings: what is wrong.
    """

    sites: Sites
    pieces: dict[int, list[Piece]] = field(default_factory=dict)
    reached: list[tuple[ir.Entry, Region]] = field(default_factory=list)
    unmatched: list[ir.Entry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def rule_of(self, site: Site) -> list[Piece]:
        """The pieces of one site."""
        return self.pieces.get(site.number, [])

    def unruled(self, site: Site) -> list[Box]:
        """The modules of a site that no rule reaches."""
        return without([site.whole], [piece.box for piece in self.rule_of(site)])


def assign(plan: ir.Plan, sites: Sites) -> Assignment:
    """Every module's rule under a plan, and the findings about patterns that match nothing or reach a module twice."""
    assignment = Assignment(sites)
    for entry in plan.entries:
        try:
            found = region(entry.target.pattern, sites)
        except (Uncounted, TooMany) as error:
            assignment.findings.append(_uncountable(entry, error))
            continue
        assignment.reached.append((entry, found))
        if not found and not entry.target.optional:
            assignment.unmatched.append(entry)
        match entry:
            case ir.Rule():
                _add(assignment, entry, found)
            case ir.Drop():
                _remove(assignment, entry, found)
            case ir.Expect():
                pass
    return assignment


def _add(assignment: Assignment, rule: ir.Rule, found: Region) -> None:
    clashes: dict[int, tuple[ir.Rule, Site, Box]] = {}
    replaced = False
    for number, boxes in found.items():
        kept: list[Piece] = []
        for piece in assignment.pieces.get(number, ()):
            shared = next(filter(None, (intersect(piece.box, box) for box in boxes)), None)
            if shared is None:
                kept.append(piece)
                continue
            replaced = True
            if piece.rule.level == rule.level and not rule.override:
                clashes.setdefault(id(piece.rule), (piece.rule, assignment.sites.all[number], shared))
            kept += [Piece(box, piece.rule) for box in without([piece.box], boxes)]
        assignment.pieces[number] = kept + [Piece(box, rule) for box in boxes]
    for other, site, box in clashes.values():
        assignment.findings.append(_overlap(rule, other, site, box))
    if rule.override and found and not replaced:
        message = f"`override` replaces nothing: no earlier rule reaches {example(assignment.sites, found)}"
        place = rule.place
        assignment.findings.append(
            Finding(code=codes.NEEDLESS_OVERRIDE, message=message, place=place, help="remove the word `override`")
        )


def _remove(assignment: Assignment, drop: ir.Drop, found: Region) -> None:
    dropped = False
    for number, boxes in found.items():
        kept: list[Piece] = []
        for piece in assignment.pieces.get(number, ()):
            if piece.rule.level <= drop.level:
                kept.append(piece)
                continue
            left = without([piece.box], boxes)
            dropped = dropped or left != [piece.box]
            kept += [Piece(box, piece.rule) for box in left]
        assignment.pieces[number] = kept
    if found and not dropped and not drop.target.optional:
        message = f"no inherited rule reaches {example(assignment.sites, found)}, so there is nothing to drop"
        assignment.findings.append(
            Finding(
                code=codes.UNMATCHED_RULE,
                message=message,
                place=target_place(drop),
                help="remove this line, or mark the pattern with `?`",
            )
        )


def example(sites: Sites, found: Region) -> str:
    """The first place of a region, in back-ticks."""
    return f"`{sites.all[min(found)].shown}`"


def target_place(entry: ir.Entry) -> Place | None:
    """Where the pattern of an entry stands."""
    return _at(entry, entry.target)


def _at(entry: ir.Entry, node: Node | Target) -> Place | None:
    return entry.place.source.place(node.span) if entry.place else None


def _overlap(rule: ir.Rule, other: ir.Rule, site: Site, box: Box) -> Finding:
    where = ".".join(
        segment if isinstance(segment, str) else str(next(numbers)) for numbers in [iter(box)] for segment in site.path
    )
    related = (Related(place=other.place, message="the first rule that reaches it"),) if other.place else ()
    return Finding(
        code=codes.OVERLAPPING_RULES,
        message=f"two rules reach `{where}`",
        place=target_place(rule),
        label="reaches it again",
        related=related,
        help="write `override` before this rule to replace the other, or narrow one of them with `except`",
    )


def unmatched(plan: ir.Plan, assignments: Sequence[Assignment]) -> Iterator[Finding]:
    """One finding for each entry that matches nothing in the model, or in one or more of the plan's classes."""
    for entry in plan.entries:
        without = [each.sites for each in assignments if any(entry is other for other in each.unmatched)]
        if not without:
            continue
        near = corrected(entry.target.pattern, without[0])
        what = {ir.Rule: "rule", ir.Drop: "`drop`", ir.Expect: "`expect`"}[type(entry)]
        models = or_list(sites.tree.name for sites in without)
        help_ = f"did you mean {or_list(near)}?" if near else "mark it with `?` if it may match nothing"
        if near and len(without) < len(assignments):
            help_ = "mark it with `?` if it is meant for the other classes alone"
        message = f"the {what} matches no module of {models}"
        yield Finding(code=codes.UNMATCHED_RULE, message=message, place=target_place(entry), help=help_)


def _uncountable(entry: ir.Entry, error: Uncounted | TooMany) -> Finding:
    if isinstance(error, TooMany):
        message = "the pattern stands for more layer numbers than can be listed"
        return Finding(code=codes.RANGE_TOO_LARGE, message=message, place=_at(entry, error.segment), help="name fewer")
    message = "which layers this means depends on how many the model has"
    help_ = "give `--model …`, or count from the first layer"
    return Finding(code=codes.UNCOUNTED_LAYERS, message=message, place=_at(entry, error.part), help=help_)
