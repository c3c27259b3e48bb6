"""`planlang check`: from a matched plan and the graphs of its model to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planlang.analysis.assign import Assignment
from planlang.analysis.flow.applied import applied_styles
from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.change import Change
from planlang.analysis.flow.conflict import Conflict
from planlang.analysis.flow.expectations import prove
from planlang.analysis.flow.faults import Occurrence, Probe, gather, involved_causes, probes, spots
from planlang.analysis.flow.findings import Wording
from planlang.analysis.flow.fixes import cure
from planlang.analysis.flow.gradients import Wrong
from planlang.analysis.flow.passes import Contract, Pass, run
from planlang.analysis.flow.setup import Setup
from planlang.analysis.flow.unblocked import unblocked_findings
from planlang.analysis.flow.words import star
from planlang.analysis.regions import concrete
from planlang.diagnostics.finding import Finding
from planlang.model.graph import Graph
from planlang.model.template import Graphs
from planlang.model.tree import Kind
from planlang.plan import ir
from planlang.plan.styles import Skip

MOST_CURED = 12  # faults for which a cure is looked for


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of one axis found.

    Attributes:
        axis: the mesh axis.
        ranks: its size.
        passes: the passes that were walked, the one of training first.
        findings: faults and doubts, in the order in which the model runs.
        changes: a cure for each finding that has one, in the same order; all were checked again.
    """

    axis: str
    ranks: int
    passes: tuple[tuple[Probe, Pass], ...]
    findings: tuple[Finding, ...]
    changes: tuple[Change | None, ...] = field(default=())


def check_axis(
    plan: ir.Plan,
    assignment: Assignment,
    graphs: Graphs,
    axis: str,
    ranks: int,
    *,
    contract: Contract = "torch",
    cures: bool = True,
) -> Checked:
    """Checks the rules of one mesh axis, at every size and in every circumstance that is known to matter.

    Args:
        plan: the resolved plan.
        assignment: its rules on the modules of one model.
        graphs: that model's forward passes.
        axis: the mesh axis.
        ranks: its size.
        contract: what the loss takes.
        cures: whether to look for changes that cure what is found.
    """
    applied = applied_styles(assignment, axis)
    kinds = _kinds(assignment, applied)
    known = list(_graphs(graphs, ranks))

    def walk(styles: Mapping[str, Applied], chosen: Sequence[tuple[Probe, Graph]]) -> list[tuple[Probe, Pass]]:
        return [(probe, run(Setup(graph, styles, ranks, kinds), contract)) for probe, graph in chosen]

    walked = walk(applied, known)
    occurrences = gather(walked)
    wording = Wording(plan, axis, ranks, [probe for probe, _ in known], applied)
    cured: dict[Change, Occurrence] = {}
    changes: dict[int, Change | None] = {}
    for number, occurrence in enumerate(occurrences):
        change = None
        if cures and number < MOST_CURED and not occurrence.unknown:
            change = _cured(occurrence, walked, known, applied, assignment, walk)
        if change in cured:
            cured[change].also.append(occurrence)  # one mistake
            continue
        if change is not None:
            cured[change] = occurrence
        changes[number] = change
    findings = []
    for number, change in changes.items():
        entry, alone = _left_out(assignment, change)
        findings.append(wording.finding(occurrences[number], change, entry.place if entry else None))
        if (
            change and alone and isinstance(entry, ir.Rule)
        ):  # in its place, since a new rule beside it would be one too many
            changes[number] = replace(change, old=Applied(entry.style, entry))
    more = (*prove(plan, assignment, walked, wording), *unblocked_findings(each for _, each in walked))
    return Checked(axis, ranks, tuple(walked), (*findings, *more), (*changes.values(), *(None for _ in more)))


def _graphs(graphs: Graphs, ranks: int) -> Iterator[tuple[Probe, Graph]]:
    for probe in probes(ranks):
        template = graphs.passes.get(probe.kind)
        graph = template.find(probe.batch, probe.length) if template else None
        if graph is not None:
            yield probe, graph
    example = graphs.passes.get("example")
    if example is not None:
        for batch, length in example.settings:
            yield Probe("example", batch, length), example.at(batch, length)


def _kinds(assignment: Assignment, applied: Mapping[str, Applied]) -> dict[str, Kind]:
    tree = assignment.sites.tree
    return {name: node.kind for name in applied if (node := tree.find(name)) is not None}


def _cured(
    occurrence: Occurrence,
    walked: Sequence[tuple[Probe, Pass]],
    known: Sequence[tuple[Probe, Graph]],
    applied: Mapping[str, Applied],
    assignment: Assignment,
    walk: Callable[[Mapping[str, Applied], Sequence[tuple[Probe, Graph]]], list[tuple[Probe, Pass]]],
) -> Change | None:
    """A change that cures a fault where it was seen, and makes none there or in training."""
    chosen = [(probe, graph) for probe, graph in known if probe == occurrence.probe or probe == known[0][0]]
    before = spots((p, each) for p, each in walked if p in dict(chosen))
    broken = any(isinstance(what, Conflict) for what in before.values())  # what comes after it was not followed
    modules = _modules(assignment)
    tree = assignment.sites.tree

    def whole(change: Change) -> bool:
        after = change.apply(applied, modules)
        return not any(spots(walk(after, [each])) for each in known)  # most fail in the first

    def check(change: Change) -> bool:
        after = spots(walk(change.apply(applied, modules), chosen))
        new = [what for spot, what in after.items() if spot not in before]
        cured = not occurrence.spots & after.keys()
        return cured and all(broken and not _touches(change, what) for what in new)

    def unruled(module: str) -> tuple[str, ...]:
        node = tree.find(module)
        if node is None:
            return ()
        among = (
            [(module, node)]
            if node.kind is Kind.LINEAR
            else [(f"{module}.{child.name}", child.node) for child in node.children]
        )
        return tuple(star(name) for name, each in among if each.kind is Kind.LINEAR and name not in applied)

    seen = next(each for probe, each in walked if probe == occurrence.probe)
    change = cure(occurrence, seen, check, whole, unruled)
    return replace(change, among=tuple(modules)) if change else None


def _left_out(assignment: Assignment, change: Change | None) -> tuple[ir.Rule | ir.Drop | None, bool]:
    """What says in the plan itself that modules which need a rule are to have none: a `skip` or a `drop`.

    Returns:
        It, and whether it says so of no other modules.
    """
    if change is None or change.old is not None:
        return None, False
    for entry, found in reversed(assignment.reached):
        if isinstance(entry, ir.Drop) or (isinstance(entry, ir.Rule) and isinstance(entry.style, Skip)):
            reached = {
                star(name)
                for number, boxes in found.items()
                for box in boxes
                for name in concrete(assignment.sites.all[number], box)
            }
            if reached & set(change.modules):
                return entry, reached <= set(change.modules)
    return None, False


def _touches(change: Change, what: Conflict | Wrong) -> bool:
    """Whether a fault may come from a change."""
    if isinstance(what, Conflict):
        causes = involved_causes(what)
        if not causes or star(what.module) in change.modules:
            return True
    else:
        cause = what.split.cause if what.split else what.cause
        if what.parameter is None or star(what.parameter.name).rpartition(".")[0] in change.modules:
            return True
        causes = [cause] if cause else []
    old = change.old.rule if change.old else None
    return any((old and each.applied.rule is old) or star(each.module) in change.modules for each in causes)


def _modules(assignment: Assignment) -> dict[str, tuple[str, ...]]:
    """All modules by their star form."""
    found: dict[str, list[str]] = {}
    for site in assignment.sites.all:
        for name in concrete(site, site.whole):
            found.setdefault(star(name), []).append(name)
    return {pattern: tuple(names) for pattern, names in found.items()}
