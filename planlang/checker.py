"""`check`: what a plan does to layouts and gradients, from the compiled plan to a report.

What the compiler finds comes first; where that is an error, layouts are not looked at, since they would only repeat it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from planlang.analysis.coverage import uncovered
from planlang.analysis.flow.check import Checked, check_axis
from planlang.analysis.flow.passes import CONTRACTS, Contract
from planlang.compiler import Compiled
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError, has_errors
from planlang.loaded import Plan
from planlang.model import catalog
from planlang.model.template import Graphs
from planlang.model.tree import Tree
from planlang.model.trees import named_graphs, named_model
from planlang.opening import open_plan
from planlang.plan.styles import Colwise, Replicated, Rowwise, axis_of, blocks_of
from planlang.plan.styles import Sequence as SequenceStyle

if TYPE_CHECKING:
    from torch import nn

    from planlang.loaded import Model

ExampleInputs: TypeAlias = "Mapping[str, Any] | tuple[Any, ...]"

DEFAULT_RANKS = 2


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found.

    Attributes:
        model: what it was checked on.
        sizes: how many ranks each mesh axis was taken to have.
        findings: everything, in the order in which it should be read.
        checked: the walks of each mesh axis; empty where the plan has errors before.
        whole: whether all passes of the model could be captured.
    """

    model: str
    sizes: Mapping[str, int]
    findings: tuple[Finding, ...]
    checked: tuple[Checked, ...] = field(default=())
    whole: bool = field(default=True)

    @property
    def mesh(self) -> str:
        """The sizes as text: `tp=4`."""
        return ", ".join(f"{axis}={size}" for axis, size in self.sizes.items())

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not has_errors(self.findings)

    @property
    def proved(self) -> bool:
        """Whether the plan provably computes what a single device computes, at every size that was looked at.

        Several mesh axes are looked at one by one, which does not prove the whole.
        """
        return self.right and self.whole and len(self.checked) == 1

    @property
    def right(self) -> bool:
        """Whether all that was looked at is right."""
        return self.ok and bool(self.checked) and all(one.right for each in self.checked for _, one in each.passes)


def check(
    plan: Plan | str | os.PathLike[str],
    model: Model | None = None,
    *,
    tp: int | Sequence[int] | None = None,
    cls: str | None = None,
    contract: Contract = "torch",
    example_inputs: ExampleInputs | None = None,
) -> tuple[Report, ...]:
    """Checks a plan on a model, or on one of the catalog for each class that it names.

    Args:
        plan: a plan, or what `planlang.load` takes.
        model: as for `Plan.compile`.
        tp: how many ranks the axis `tp` has, or several numbers of them; 2 where neither this nor the plan says.
        cls: which class of a named model.
        contract: what the loss takes.
        example_inputs: for a module that is no language model of transformers, the inputs of its forward pass, by name
            or by position. It is run once with them, and checked at their sizes alone.

    Returns:
        A report for each model and number of ranks.

    Raises:
        PlanError: there is no such plan or model.
        TypeError: there are `example_inputs` for what is no module.
        ValueError: there is no such contract, or no number of ranks.
    """
    plan = plan if isinstance(plan, Plan) else open_plan(plan, {})
    if isinstance(model, os.PathLike):
        model = os.fspath(model)
    if example_inputs is not None:
        _module(model)
    if contract not in CONTRACTS:
        raise ValueError(f"the contract is {contract!r}, not one of {', '.join(CONTRACTS)}")
    sizes = tp if isinstance(tp, Sequence) else [tp]
    if not sizes:
        raise ValueError("`tp` holds no number of ranks")
    return tuple(report for ranks in sizes for report in _check(plan, model, ranks, cls, contract, example_inputs))


def findings_of(reports: Sequence[Report]) -> tuple[Finding, ...]:
    """What several reports found, each mistake once; with the numbers of ranks where it is not one for all of them."""
    found: dict[object, Finding] = {}
    where: dict[object, list[str]] = {}
    sizes = list(dict.fromkeys(report.mesh for report in reports if report.sizes))
    for report in reports:
        for finding in report.findings:
            key = (finding.code, finding.place) if len(sizes) > 1 and finding.place else finding
            found.setdefault(key, finding)
            where.setdefault(key, []).append(report.mesh)
    return tuple(
        replace(finding, notes=(*finding.notes, f"with {', '.join(dict.fromkeys(where[key]))}"))
        if len(sizes) > 1 and any(where[key]) and set(where[key]) != set(sizes)
        else finding
        for key, finding in found.items()
    )


def _check(
    plan: Plan,
    model: Model | None,
    tp: int | None,
    cls: str | None,
    contract: Contract,
    example_inputs: ExampleInputs | None,
) -> tuple[Report, ...]:
    if model is not None:
        tree = _tree(model, cls)
        name = model if isinstance(model, str) else tree.name
        graphs = partial(_graphs, model, cls or tree.cls, example_inputs)
        return (report_on(plan.compile(tree, tp=tp), graphs, name, contract),)
    compiled = plan.compile(None, tp=tp)
    if compiled.plan is None or has_errors(compiled.findings):
        return (Report("", {}, compiled.findings),)
    ranks = tp or next((axis.size for axis in compiled.plan.mesh if axis.name == "tp" and axis.size), DEFAULT_RANKS)
    reports = []
    for each in compiled.plan.classes:
        entry = _example(each, ranks)
        if entry is None:
            message = f"no model of the catalog is a `{each}`, so the layouts of the plan are not checked"
            finding = Finding(
                code=codes.NO_DATAFLOW, message=message, place=compiled.plan.place, help="give `--model CONFIG.JSON`"
            )
            reports.append(Report(each, {"tp": ranks}, (*compiled.findings, finding)))
            continue
        tree = catalog.tree(entry, each)
        name = f"{entry} as {each}" if any(report.model == entry for report in reports) else entry
        reports.append(report_on(plan.compile(tree, tp=tp), partial(_graphs, entry, each), name, contract))
    return tuple(reports)


def _tree(model: Model, cls: str | None) -> Tree:
    from planlang.loaded import tree_of

    if not isinstance(model, str) or cls is None:
        return tree_of(model)
    found = named_model(model, cls)
    if isinstance(found, Finding):
        raise PlanError([found])
    return found


def _example(cls: str, ranks: int) -> str | None:
    """The smallest model of the catalog of a class whose heads the ranks divide; else the smallest."""
    entries = sorted((e for e in catalog.names() if cls in e.classes), key=lambda e: e.params)
    fitting = [entry for entry in entries if ranks == 1 or ranks in entry.tp_sizes]
    return next((entry.name for entry in (*fitting, *entries)), None)


def report_on(
    compiled: Compiled,
    capture: Callable[[], Graphs | Finding],
    name: str,
    contract: Contract = "torch",
    *,
    cures: bool = True,
) -> Report:
    """A report on a compiled plan.

    Args:
        compiled: the plan, compiled for one model.
        capture: gives that model's passes; called where the plan has no errors so far.
        name: the model's.
        contract: what the loss takes.
        cures: whether to look for changes that cure what is found.
    """
    plan = compiled.plan
    if plan is None or has_errors(compiled.findings) or not compiled.assignments:
        return Report(name, dict(compiled.settings.sizes), compiled.findings)
    assignment = compiled.assignments[0]
    pieces = [piece for site in assignment.sites.all for piece in assignment.rule_of(site)]
    used = dict.fromkeys(axis for piece in pieces if (axis := axis_of(piece.rule.style)))
    known = {axis.name: axis.size or compiled.settings.sizes.get(axis.name) or DEFAULT_RANKS for axis in plan.mesh}
    sizes = {axis: known.get(axis, DEFAULT_RANKS) for axis in used}
    findings = list(compiled.findings)
    checked: list[Checked] = []
    graphs = capture()
    if isinstance(graphs, Finding):
        findings.append(graphs)
    else:
        for kind, reason in graphs.failures.items():
            findings.append(_failure(kind, reason, name, compiled, whole=not graphs.passes))
        cut = {axis_of(piece.rule.style) for piece in pieces if blocks_of(piece.rule.style)}
        for axis, size in sizes.items():
            ranks = max(size, 2) if axis in cut else size  # blocks are cut on one rank as on several
            if ranks > 1 and graphs.passes:
                checked.append(check_axis(plan, assignment, graphs, axis, ranks, contract=contract, cures=cures))
        findings += [finding for each in checked for finding in each.findings]
    findings += _coverage(compiled)
    whole = isinstance(graphs, Graphs) and not graphs.failures
    return Report(name, sizes, tuple(dict.fromkeys(findings)), tuple(checked), whole)


def _graphs(model: Model, cls: str, example_inputs: ExampleInputs | None = None) -> Graphs | Finding:
    if example_inputs is not None:
        from planlang.model.graphs import trace_module

        return trace_module(_module(model), example_inputs)
    try:
        return named_graphs(model.name if isinstance(model, Tree) else model, cls)
    except PlanError as error:
        return error.findings[0]


def _module(model: Model | None) -> nn.Module:
    from torch import nn

    if not isinstance(model, nn.Module):
        raise TypeError(f"example_inputs are for a model that is a module, not a {type(model).__name__}")
    return model


def _failure(kind: str, reason: str, name: str, compiled: Compiled, *, whole: bool) -> Finding:
    left = "none of its layouts is checked" if whole else f"its `{kind}` pass is not checked, or at some sizes only"
    return Finding(
        code=codes.NO_DATAFLOW,
        message=f"the forward pass of `{name}` could not be captured, so {left}",
        place=compiled.plan.place if compiled.plan else None,
        notes=(reason,),
        help="patterns, styles, sizes and ties were checked; in Python, `planlang.check` takes `example_inputs`",
    )


def _coverage(compiled: Compiled) -> Sequence[Finding]:
    """A note where plain parameters stand beside DTensors."""
    assignment = compiled.assignments[0]
    placing = (Colwise, Rowwise, SequenceStyle, Replicated)
    pieces = [piece for site in assignment.sites.all for piece in assignment.rule_of(site)]
    left = [each for each in uncovered(assignment) if not each.skipped]
    if not left or not any(isinstance(piece.rule.style, placing) for piece in pieces):
        return ()
    count = sum(each.count for each in left)
    largest = f"`{left[0].name}`"
    message = f"{count} parameters stay plain tensors beside DTensors, {largest} the largest of them"
    if count == 1:
        message = f"{largest} stays a plain tensor beside DTensors"
    return (
        Finding(
            code=codes.PLAIN_BESIDE_DTENSORS,
            message=message,
            place=compiled.plan.place if compiled.plan else None,
            notes=("`clip_grad_norm_`, fused optimizers and `foreach=True` raise on such a mixture",),
            help="give them `replicate(grad=none)`, which makes DTensors of them, or `skip`, which silences this",
        ),
    )
