"""`verify`: a plan is run on every rank in this process, on a tiny twin of the model, and compared with one device.

The checker explains and this proves: it runs torch's own code. They share nothing but the plan and the module tree.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from planlang.analysis.flow.applied import applied_styles
from planlang.analysis.flow.cause import Applied
from planlang.checker import check
from planlang.compiler import Compiled
from planlang.diagnostics.finding import Finding, PlanError, has_errors
from planlang.loaded import tree_named, tree_of
from planlang.model.tree import Tree
from planlang.plan import ir

if TYPE_CHECKING:
    from torch import Tensor, nn

    from planlang.loaded import Model, Plan
    from planlang.runtime.simulate import Outcome, Truth
    from planlang.runtime.verify.cases import Case
    from planlang.runtime.verify.twin import Twin
    from planlang.runtime.verify.words import Failure

DEFAULT_RANKS = (2, 4)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Result:
    """One run.

    Attributes:
        ranks: how many.
        case: the circumstances.
        outcome: what became of it.
        tolerance: what was taken for rounding.
        seconds: how long it took.
    """

    ranks: int
    case: Case
    outcome: Outcome
    tolerance: float
    seconds: float

    @property
    def right(self) -> bool:
        """Whether logits, gradients and, where it was asked for, the weights after a step are those of one device."""
        return self.outcome.verdict == "right" and self.outcome.stepped <= self.tolerance


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found.

    Attributes:
        model: what the twin is a twin of.
        results: every run.
        findings: what the compiler found, and one finding for each number of ranks on which the plan fails.
        twin: what was run: `1 of 36 layers, 47,008 parameters`.
    """

    model: str
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    twin: str = field(default="")

    @property
    def ok(self) -> bool:
        """Whether all runs there should be are right."""
        return bool(self.results) and not has_errors(self.findings)


def verify(
    plan: Plan,
    model: Model,
    *,
    tp: int | Sequence[int] | None = None,
    cls: str | None = None,
    full: bool = False,
    progress: Progress | None = None,
) -> Verified:
    """Runs a plan on all ranks in this process and compares it with one device, in float64.

    Args:
        plan: a plan that was read.
        model: a name of the catalog, a `config.json` or its folder, a configuration, or a model of transformers.
        tp: how many ranks the axis `tp` has, or several numbers of them; 2 and 4 where nothing is said.
        cls: which class of a named model.
        full: the real widths, one layer of each kind.
        progress: is told what runs, how much is done, and of how much.

    Raises:
        PlanError: there is no such model, or it cannot be run on one device.
    """
    from planlang.runtime.verify.cases import cases
    from planlang.runtime.verify.configured import configured
    from planlang.runtime.verify.twin import twin_of
    from planlang.runtime.verify.words import worded

    sizes = (tp,) if isinstance(tp, int) else tuple(tp or DEFAULT_RANKS)
    tree = tree_named(model, cls) if isinstance(model, str) else tree_of(model)
    made, config = configured(model, tree)
    results: list[Result] = []
    findings: dict[Finding, None] = {}
    done, total = 0, sum(len(cases(ranks)) for ranks in sizes)
    described = ""
    for ranks in sizes:
        compiled = plan.compile(tree, tp=ranks)
        findings |= dict.fromkeys(compiled.findings)
        if compiled.failed or not compiled.assignments:
            continue
        applied = applied_styles(compiled.assignments[0], "tp")
        styles = {name: each.style for name, each in applied.items()}
        twin = twin_of(made, config, tree, styles, sizes, full=full)
        described = described or _described(twin, tree)
        subject = Subject(twin, applied, ranks)
        failed: list[Result] = []
        for case in cases(ranks):
            if progress:
                progress(f"tp={ranks}, {case.name}", done, total)
            result = subject.run(case)
            results.append(result)
            done += 1
            if not result.right:
                failed.append(result)
        if failed:
            name = model if isinstance(model, str) else tree.name
            findings[worded(subject.failure(failed), plan_of(compiled), name, _foreseen(plan, model, ranks, cls))] = (
                None
            )
    if progress:
        progress("", total, total)
    return Verified(tree.name, tuple(results), tuple(findings), described)


def plan_of(compiled: Compiled) -> ir.Plan:
    """The resolved plan, of which it is known that there is one."""
    assert compiled.plan is not None
    return compiled.plan


class Subject:
    """A twin under a plan, on a number of ranks."""

    def __init__(self, twin: Twin, applied: Mapping[str, Applied], ranks: int) -> None:
        self.twin, self.ranks = twin, ranks
        self.applied = {own: each for name, each in applied.items() if (own := twin.name(name)) is not None}

    def run(self, case: Case) -> Result:
        """Runs all of the plan.

        Raises:
            PlanError: the model itself cannot be run, or its output is no number.
        """
        from planlang.runtime.verify.noise import tolerance

        start = monotonic()
        right = self._right(case)
        allowed = tolerance(partial(self._make, case), right.inputs, right, self.ranks)
        return Result(self.ranks, case, self._outcome(case, self.applied, right, allowed), allowed, monotonic() - start)

    def failure(self, failed: Sequence[Result]) -> Failure:
        """What is known of the first of some failed runs: where, which rules, and with how few of them."""
        from planlang.runtime.verify.diverge import first_divergence
        from planlang.runtime.verify.smallest import smallest
        from planlang.runtime.verify.words import Failure

        first = failed[0]
        right = self._right(first.case)
        styles = {name: each.style for name, each in self.applied.items()}
        make = partial(self._make, first.case)
        parting = None
        if first.outcome.verdict == "forward":
            parting = first_divergence(make, styles, self.ranks, right.inputs, right, first.tolerance)
        rules = list({id(each.rule): each.rule for each in self.applied.values() if each.rule}.values())

        def fails(some: Sequence[ir.Rule]) -> bool:
            kept = {id(rule) for rule in some}
            applied = {name: each for name, each in self.applied.items() if id(each.rule) in kept}
            outcome = self._outcome(first.case, applied, right, first.tolerance)
            return outcome.verdict == first.outcome.verdict and _sign(outcome) == _sign(first.outcome)

        few = smallest(rules, fails) if first.outcome.verdict != "right" else ()
        return Failure(self.ranks, tuple(failed), parting, few, dict(self.applied), self.twin)

    def _outcome(self, case: Case, applied: Mapping[str, Applied], right: Truth, allowed: float) -> Outcome:
        from planlang.runtime.simulate import simulate

        styles = {name: each.style for name, each in applied.items()}
        return simulate(
            partial(self._make, case),
            styles,
            self.ranks,
            right.inputs,
            right=right,
            tolerance=allowed,
            micro_batches=case.micro_batches,
            step=case.step,
        )

    def _make(self, case: Case) -> nn.Module:
        model: Any = self.twin.make(attention=case.attention)
        if case.train:
            model.train()
        if case.checkpointed:
            model.activation_checkpointing_enable()
        return model  # type: ignore[no-any-return]

    def _right(self, case: Case) -> Truth:
        from planlang.runtime.simulate.truth import truth
        from planlang.runtime.verify.words import unrunnable

        inputs: dict[str, Tensor] = self.twin.inputs(case.batch, case.length, masked=case.masked)
        try:
            right = truth(partial(self._make, case), inputs)
        except Exception as error:  # whatever the model's code raises
            raise PlanError([unrunnable(case, error)]) from error
        if not bool(right.logits.isfinite().all()):
            raise PlanError([unrunnable(case, None)])
        return copy.copy(right)


def _sign(outcome: Outcome) -> object:
    """What makes two failures one: where it crashed, or which gradients are wrong."""
    if outcome.crash:
        return (outcome.crash.stage, outcome.crash.exception, outcome.crash.module)
    return frozenset(each.name for each in outcome.gradients) if outcome.verdict == "gradient" else None


def _foreseen(plan: Plan, model: Model, ranks: int, cls: str | None) -> tuple[Finding, ...]:
    """The errors that `check` finds."""
    reports = check(plan, model, tp=ranks, cls=cls)
    return tuple(dict.fromkeys(_errors(finding for report in reports for finding in report.findings)))


def _errors(findings: Iterator[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if has_errors([finding]))


def _described(twin: Twin, tree: Tree) -> str:
    count = sum(parameter.numel() for parameter in twin.make().parameters())
    total = tree.config.get("num_hidden_layers")
    layers = f"{len(twin.kept)} of {total} layers, " if twin.kept else ""
    return f"{layers}{count:,} parameters"
