"""A twin under a plan, on a number of ranks: run, and looked into where it fails."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import torch
from torch import nn

from planlang.analysis.flow.cause import Applied
from planlang.diagnostics.finding import Finding, PlanError
from planlang.model.calls import silence
from planlang.plan import ir
from planlang.runtime.simulate import Outcome, Truth, simulate, truth
from planlang.runtime.simulate.exact import float64_kept
from planlang.runtime.simulate.truth import Inputs
from planlang.runtime.verify.backward import GradientParting, first_wrong_gradient
from planlang.runtime.verify.cases import Case
from planlang.runtime.verify.diverge import Divergence, first_divergence
from planlang.runtime.verify.noise import MOST, tolerance
from planlang.runtime.verify.result import Result
from planlang.runtime.verify.smallest import smallest
from planlang.runtime.verify.twin import Twin
from planlang.runtime.verify.words import Failure, unmoved, unrunnable, unsteady


class Subject:
    """A twin under a plan, on a number of ranks.

    Args:
        twin: the model.
        applied: the style of every module of the real model that has one.
        ranks: their number.
    """

    def __init__(self, twin: Twin, applied: Mapping[str, Applied], ranks: int) -> None:
        self.twin, self.ranks = twin, ranks
        self.kept = True  # whether the model runs where float64 is kept throughout
        self._made: dict[str, nn.Module] = {}
        self.applied = {own: each for name, each in applied.items() if (own := twin.name(name)) is not None}

    def run(self, case: Case) -> Result:
        """Runs all of the plan.

        Raises:
            PlanError: the model itself cannot be run, its output is no number, or all its gradients are zero.
        """
        start = monotonic()
        with silence():
            right = self.right(case)
            allowed = self.allowed(case, right)
            outcome = self._outcome(case, self.applied, right, allowed)
        return Result(self.ranks, case, outcome, allowed, monotonic() - start)

    def failure(self, failed: tuple[Result, ...], tried: int, foreseen: tuple[Finding, ...]) -> Failure:
        """What is known of a plan that fails: where the values part, and a few rules that fail so by themselves.

        Args:
            failed: the runs that fail.
            tried: how many circumstances there were.
            foreseen: the errors that `check` finds, and what it says it cannot check.
        """
        alive = [each for each in failed if each.outcome.crash is None or each.outcome.crash.stage != "process"]
        parting: Divergence | GradientParting | None = None
        few: tuple[ir.Rule, ...] = ()
        if alive:  # what ends a process would end this one
            failed = (alive[0], *(each for each in failed if each is not alive[0]))
            with silence():
                right = self.right(failed[0].case)
                again = self._outcome(failed[0].case, self.applied, right, failed[0].tolerance)
                if _sign(again) == _sign(failed[0].outcome):  # real processes can fail in a way that is their own
                    parting, few = self._parting(failed[0], right), self._few(failed[0], right)
        return Failure(self.ranks, failed, tried, parting, few, self.applied, self.twin, foreseen)

    def _parting(self, failed: Result, right: Truth) -> Divergence | GradientParting | None:
        styles = {name: each.style for name, each in self.applied.items()}
        given = (partial(self.make, failed.case), styles, self.ranks, right.inputs, right, failed.tolerance)
        with float64_kept(self.kept):
            if failed.outcome.verdict == "forward":
                return first_divergence(*given)
            if failed.outcome.verdict == "gradient":
                return first_wrong_gradient(*given, {each.name for each in failed.outcome.gradients})
        return None

    def _few(self, failed: Result, right: Truth) -> tuple[ir.Rule, ...]:
        rules = list({id(each.rule): each.rule for each in self.applied.values() if each.rule}.values())

        def fails(some: Sequence[ir.Rule]) -> bool:
            kept = {id(rule) for rule in some}
            applied = {name: each for name, each in self.applied.items() if id(each.rule) in kept}
            return _sign(self._outcome(failed.case, applied, right, failed.tolerance)) == _sign(failed.outcome)

        return smallest(rules, fails) if failed.outcome.verdict != "right" else ()

    def _outcome(self, case: Case, applied: Mapping[str, Applied], right: Truth, allowed: float) -> Outcome:
        with float64_kept(self.kept):
            return simulate(
                partial(self.make, case),
                {name: each.style for name, each in applied.items()},
                self.ranks,
                right.inputs,
                right=right,
                tolerance=allowed,
                micro_batches=case.micro_batches,
                step=case.step,
            )

    def make(self, case: Case) -> nn.Module:
        """A fresh model, the same at every call."""
        model: Any = self._fresh(case.attention)
        if case.train:
            model.train()
        if case.checkpointed:
            model.activation_checkpointing_enable()
        made: nn.Module = model
        return made

    def _fresh(self, attention: str) -> nn.Module:
        """A copy of the twin, which costs less than another; with real widths there is no memory for one to copy."""
        if self.twin.full:
            return self.twin.make(attention=attention)
        if attention not in self._made:
            self._made[attention] = self.twin.make(attention=attention)
        return copy.deepcopy(self._made[attention])

    def right(self, case: Case) -> Truth:
        """What one device computes.

        Raises:
            PlanError: the model itself cannot be run, its output is no number, or all its gradients are zero.
        """
        try:
            inputs = self.twin.inputs(case.batch, case.length, masked=case.masked)
            right = self._truth(case, inputs)
        except Exception as error:  # whatever the model's code raises
            raise PlanError([unrunnable(case, error)]) from error
        for what, tensor in (("the logits", right.logits), *right.gradients.items()):
            if tensor is not None and not bool(torch.isfinite(tensor).all()):
                raise PlanError([unrunnable(case, None, what)])
        if not right.scale:
            raise PlanError([unmoved(case)])
        return right

    def _truth(self, case: Case, inputs: Inputs) -> Truth:
        """With float64 throughout, unless the model's code cannot do with it."""
        try:
            with float64_kept(self.kept):
                return truth(partial(self.make, case), inputs, case.micro_batches)
        except Exception:  # whatever the model's code raises where float64 stays; as it is it may run
            if not self.kept:
                raise
        self.kept = False
        return truth(partial(self.make, case), inputs, case.micro_batches)

    def allowed(self, case: Case, right: Truth) -> float:
        """What is rounding.

        Raises:
            PlanError: sums in another order overflow, or change so much that there is nothing to compare with.
        """
        with float64_kept(self.kept):
            found = tolerance(partial(self.make, case), right.inputs, right, self.ranks, case.micro_batches, case.step)
        if not math.isfinite(found):
            raise PlanError([unrunnable(case, None, "sums in another order")])
        if found > MOST:
            raise PlanError([unsteady(case, found)])
        return found


def _sign(outcome: Outcome) -> object:
    """What makes two failures one: the verdict, and where it crashed or which gradients are wrong."""
    if outcome.verdict == "crash" and outcome.crash:
        return ("crash", outcome.crash.stage, outcome.crash.exception, outcome.crash.module)
    wrong = frozenset(each.name for each in outcome.gradients) if outcome.verdict == "gradient" else None
    return (outcome.verdict, wrong)
