"""Gives every module its rule: order, `override`, inheritance and `drop` are settled here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from planlang.analysis.match import may_be_below, region
from planlang.analysis.names import model_text
from planlang.analysis.regions import Box, Region, Site, Sites, intersect, without
from planlang.analysis.suggest import corrected, explained
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, Related, or_list
from planlang.model.tree import Tree
from planlang.plan import ir
from planlang.plan.patterns import TooMany, Uncounted
from planlang.source import Place
from planlang.syntax.nodes import Node, Target
from planlang.syntax.printer import target_text


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
        needless: the rules whose `override` replaces nothing, with what they reach.
        findings: what is wrong.
    """

    sites: Sites
    pieces: dict[int, list[Piece]] = field(default_factory=dict)
    reached: list[tuple[ir.Entry, Region]] = field(default_factory=list)
    unmatched: list[ir.Entry] = field(default_factory=list)
    needless: list[tuple[ir.Rule, Region]] = field(default_factory=list)
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
                inherits = any(other.level > entry.level for other in plan.entries)
                _remove(assignment, entry, found, inherits=inherits)
            case ir.Expect():
                pass
    return assignment


def _add(assignment: Assignment, rule: ir.Rule, found: Region) -> None:
    """Lets a rule hold in a region; what held there is replaced, and reported if it may not be."""
    clashes: dict[int, tuple[ir.Rule, Site, Box]] = {}
    replaced = False
    for number, boxes in found.items():
        kept: list[Piece] = []
        for piece in assignment.pieces.get(number, ()):
            shared = next((s for box in boxes if (s := intersect(piece.box, box)) is not None), None)
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
        assignment.needless.append((rule, found))


def _remove(assignment: Assignment, drop: ir.Drop, found: Region, *, inherits: bool) -> None:
    """Takes the rules of the plans above away from a region; where these could not be read nothing is said."""
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
    if found and inherits and not dropped and not drop.target.optional:
        number = min(found)
        where = _module(assignment.sites.all[number], found[number][0])
        message = f"no inherited rule reaches {where}, so there is nothing to drop"
        assignment.findings.append(
            Finding(
                code=codes.UNMATCHED_RULE,
                message=message,
                place=target_place(drop),
                help="remove this line, or mark the pattern with `?`",
            )
        )


def target_place(entry: ir.Entry) -> Place | None:
    """Where the pattern of an entry stands."""
    return _at(entry, entry.target)


def _at(entry: ir.Entry, node: Node | Target) -> Place | None:
    return entry.place.source.place(node.span) if entry.place else None


def _overlap(rule: ir.Rule, other: ir.Rule, site: Site, box: Box) -> Finding:
    """Two rules of one file that reach a module, the later of which does not say `override`."""
    help_ = "write `override` before this rule to replace the other, or narrow one of them with `except`"
    if other.override:
        help_ = "an `override` replaces what stands above it: move it below this rule"
    return Finding(
        code=codes.OVERLAPPING_RULES,
        message=f"two rules reach {_module(site, box)}",
        place=target_place(rule),
        label="reaches it again",
        related=(Related(place=other.place, message="an earlier rule that reaches it"),) if other.place else (),
        help=help_,
    )


def needless(assignments: Sequence[Assignment]) -> Iterator[Finding]:
    """One finding for each `override` that replaces nothing in any tree, and is itself replaced by no mistake."""
    for rule, found in assignments[0].needless if assignments else ():
        clashing = any(
            related.place == rule.place
            for each in assignments
            for finding in each.findings
            for related in finding.related
        )
        if clashing or not all(any(rule is other for other, _ in each.needless) for each in assignments):
            continue
        number = min(found)
        where = _module(assignments[0].sites.all[number], found[number][0])
        message = f"`override` replaces nothing: no earlier rule reaches {where}"
        help_ = "remove the word `override`, or move the rule below the one that it replaces"
        yield Finding(code=codes.NEEDLESS_OVERRIDE, message=message, place=target_place(rule), help=help_)


def _module(site: Site, box: Box) -> str:
    """One module of a box, in back-ticks; the first layer of an open set stands for it."""
    numbers = [next(iter(each)) if each.finite else next(n for n in count() if n in each) for each in box]
    at = iter(numbers)
    names = [segment if isinstance(segment, str) else str(next(at)) for segment in site.path]
    return f"`{'.'.join(names)}`" if names else "the whole model"


def unmatched(plan: ir.Plan, assignments: Sequence[Assignment]) -> Iterator[Finding]:
    """One finding for each entry that matches nothing in the model, or in one or more of the plan's classes.

    A plan may drop what it inherits though it fits no module here, by the same pattern.
    """
    dropped = {(entry.target.pattern, entry.level) for entry in plan.entries if isinstance(entry, ir.Drop)}
    inherited = {(entry.target.pattern, entry.level) for entry in plan.entries if isinstance(entry, ir.Rule)}
    for entry in plan.entries:
        without = [each.sites for each in assignments if any(entry is other for other in each.unmatched)]
        pattern, level = entry.target.pattern, entry.level
        answered = (
            any(pattern == other and above > level for other, above in inherited)
            if isinstance(entry, ir.Drop)
            else any(pattern == other and below < level for other, below in dropped)
        )
        if without and not answered:
            yield _unmatched(entry, without, len(assignments))


def no_rules(plan: ir.Plan, trees: Sequence[Tree]) -> Finding:
    """What is said of a plan that changes nothing: torch would take an empty dict without a word."""
    models = model_text(trees[0]) if len(trees) == 1 else or_list(tree.name for tree in trees)
    what = f"no rule of the plan reaches a module of {models}" if plan.rules else "the plan has no rule that holds"
    return Finding(
        code=codes.NO_RULES,
        message=f"{what}, so it changes nothing",
        place=plan.place,
        help='write rules as `*.mlp.up_proj: colwise`, or start from a bundled plan: `extends "qwen"`',
    )


def _unmatched(entry: ir.Entry, without: Sequence[Sites], trees: int) -> Finding:
    pattern = entry.target.pattern
    what = {ir.Rule: "rule", ir.Drop: "`drop`", ir.Expect: "`expect`"}[type(entry)]
    omitted = next((name for sites in without for name in sites.tree.omitted if may_be_below(pattern, name)), None)
    if omitted:
        message = f"whether the {what} matches anything is not known: this tree leaves `{omitted}` out"
        help_ = "give `--model` the model's own config.json"
        return Finding(code=codes.OMITTED_MODULES, message=message, place=target_place(entry), help=help_)
    near = corrected(pattern, without[0])
    help_ = f"did you mean {or_list(near)}?" if near else explained(pattern, without[0])
    if len(without) < trees:
        help_ = "mark it with `?` if it is meant for the other classes alone"
    if entry.level:
        help_ = f"remove it here with `drop {target_text(entry.target)}`, or mend the plan that has it"
    tree = without[0].tree
    models = model_text(tree) if len(without) == 1 else or_list(sites.tree.name for sites in without)
    message = f"the {what} matches no module of {models}" + ("" if tree.is_class else f", a `{tree.cls}`")
    return Finding(code=codes.UNMATCHED_RULE, message=message, place=target_place(entry), help=help_)


def _uncountable(entry: ir.Entry, error: Uncounted | TooMany) -> Finding:
    if isinstance(error, TooMany):
        message = "the pattern stands for more layer numbers than can be listed"
        return Finding(code=codes.RANGE_TOO_LARGE, message=message, place=_at(entry, error.segment), help="name fewer")
    message = "which layers this means depends on how many the model has"
    help_ = "give `--model …`, or count from the first layer"
    return Finding(code=codes.UNCOUNTED_LAYERS, message=message, place=_at(entry, error.part), help=help_)
