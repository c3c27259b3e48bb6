"""The wording of what a run found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.words import and_list, star
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, has_errors
from planlang.plan import ir
from planlang.runtime.verify.backward import GradientParting
from planlang.runtime.verify.cases import Case
from planlang.runtime.verify.diverge import Divergence
from planlang.runtime.verify.noise import MARGIN
from planlang.runtime.verify.result import Result
from planlang.source import Place
from planlang.syntax.printer import target_text

if TYPE_CHECKING:
    from planlang.runtime.verify.twin import Twin

MOST_NAMES = 4
NEAR = 0.02
_STAGES = {
    "applying": "while its style is applied",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "process": "",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a plan that fails on a number of ranks.

    Attributes:
        ranks: how many.
        failed: the runs that fail, of which the first was looked into.
        tried: how many circumstances there were.
        parting: the first module whose output is wrong, or the first wrong gradient on the way back from the loss.
        few: a part of the plan that fails in the same way by itself.
        applied: the styles of the twin's modules.
        twin: what was run.
        foreseen: the errors that `check` finds, and what it says it cannot check.
    """

    ranks: int
    failed: tuple[Result, ...]
    tried: int
    parting: Divergence | GradientParting | None
    few: tuple[ir.Rule, ...]
    applied: Mapping[str, Applied]
    twin: Twin
    foreseen: tuple[Finding, ...]

    def finding(self, plan: ir.Plan) -> Finding:
        """One finding for it."""
        first = self.failed[0]
        outcome = first.outcome
        where = f"on {self.ranks} ranks"
        if outcome.crash is not None and outcome.verdict == "crash":
            crash = outcome.crash
            at = f"`{self.twin.real(crash.module)}`" if crash.module else "the model"
            message = f"{at} raises {where} {_STAGES[crash.stage]}: {crash.exception}: {crash.message}"
            notes = []
            if crash.stage == "process":
                message = f"a run {where} does not come to its end: {crash.message}"
                notes = [f"another rank waited for it in {at}"] if crash.module else []
            return self._made(codes.RAISES_WHEN_RUN, message, notes, self._place(crash.module), plan)
        if outcome.verdict == "forward":
            notes = [outcome.note] if outcome.note else []
            if not isinstance(self.parting, Divergence):
                off = _size(outcome.forward_error)
                message = f"the logits are wrong {where}: {off}"
                return self._made(codes.WRONG_OUTPUT, message, notes, None, plan)
            name = self.parting.module
            message = f"the output of `{self.twin.real(name) or 'the model'}` is wrong {where}: "
            message += _size(self.parting.error) + self._ratio(self.parting.factor)
            if self.parting.bias:
                notes.append(f"its bias is in it {self.parting.bias + 1} times")
            notes.append("the modules that run before it are right")
            return self._made(codes.WRONG_OUTPUT, message, notes, self._place(name), plan)
        if outcome.verdict == "gradient":
            worst = outcome.gradients[0]
            names = _names(sorted(self.twin.real(each.name) for each in outcome.gradients))
            off = f"{_size(worst.error)}{self._ratio(worst.factor)}"
            if worst.note:
                off = f"it has {worst.note}"
            message = f"the gradient of {names} is wrong {where}: {off}"
            notes = ["the logits are right, and no error is raised"]
            if worst.adds_up:
                notes.append("each rank has only its own part of it: the sum over the ranks is right")
            elif worst.spread > first.tolerance:
                notes.append(f"it differs between ranks, by {worst.spread:.2g} of its largest element")
            name = worst.name
            if isinstance(self.parting, GradientParting):
                notes.append(self._way_back(self.parting))
                name = self.parting.consumers[0] if self.parting.consumers else self.parting.module
            return self._made(codes.WRONG_GRADIENT, message, notes, self._place(name), plan)
        message = f"weights are wrong {where} after one step of AdamW: {_size(outcome.stepped)}"
        return self._made(codes.WRONG_GRADIENT, message, ["the gradients of a single pass are right"], None, plan)

    def _way_back(self, parting: GradientParting) -> str:
        """Where gradients part on the way back from the loss."""
        if parting.parameter:
            return f"walking back from the loss, that of `{self.twin.real(parting.parameter)}` is the first wrong one"
        name = self.twin.real(parting.module) or "the model"
        enters = and_list([f"`{self.twin.real(each)}`" for each in parting.consumers])
        return (
            f"walking back from the loss, that of the output of `{name}`{', which enters ' if enters else ''}{enters} "
            f"is the first wrong one: {_size(parting.error)}{self._ratio(parting.factor)}"
        )

    def _made(
        self, code: codes.Code, message: str, notes: Sequence[str], place: Place | None, plan: ir.Plan
    ) -> Finding:
        told = next((each for each in self._errors if each.place), None)
        first = self.few[0].place if self.few else None
        return Finding(
            code=code,
            message=message,
            place=place or (told.place if told else None) or first or plan.place,
            notes=tuple(filter(None, (*notes, self._circumstances(), self._smallest(), self._foreseen()))),
            help=(told.help if told else "") or self._help(),
        )

    def _circumstances(self) -> str:
        names = [each.case.name for each in self.failed]
        if len(names) == self.tried:
            return f"in all {self.tried} circumstances that were tried"
        return f"in {len(names)} of {self.tried} circumstances: {', '.join(names)}"

    def _smallest(self) -> str:
        rules = [f"`{target_text(rule.target)}`{_line(rule.place)}" for rule in self.few]
        return f"it fails so with nothing but {and_list(rules)}" if rules else ""

    @property
    def _errors(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.foreseen if has_errors([each]))

    def _help(self) -> str:
        if self._errors:
            return "`planlang check` follows the layouts and says what to write"
        return "mend the rule, or leave it out, and run `planlang verify` again"

    def _foreseen(self) -> str:
        if self.foreseen and not self._errors:
            left = dict.fromkeys(f"{each.code}{_line(each.place)}" for each in self.foreseen)
            return f"`planlang check` leaves a part of the plan unchecked: {', '.join(left)}"
        if not self.foreseen:
            return "`planlang check` does not find this: please report it, with the plan and the model"
        found = dict.fromkeys(f"{each.code}{_line(each.place)}" for each in self._errors)
        return f"`planlang check` finds it too: {', '.join(found)}"

    def _place(self, name: str) -> Place | None:
        """The rule of a module, or of the nearest one around it, or around a parameter."""
        above = name
        while True:
            applied = self.applied.get(above)
            if applied is not None and applied.rule is not None:
                return applied.rule.place
            if not above:
                return None
            above = above.rpartition(".")[0]

    def _ratio(self, factor: float) -> str:
        """What a ratio tells."""
        for value, text in (
            (float(self.ranks), f"; it is {self.ranks} times too large"),
            (1 / self.ranks, f"; it is 1/{self.ranks} of what it should be"),
        ):
            if abs(factor / value - 1) < NEAR:
                return text
        return ""


def unrunnable(case: Case, error: Exception | str | None, what: str = "") -> Finding:
    """What is said of a model that fails without any plan, or where `what` it computes is no number.

    Args:
        case: the circumstances.
        error: what it raises, or how it ends its process.
        what: where there are nan or inf, if it does neither.
    """
    if error is None:
        where = what if " " in what else f"the gradient of `{what}`"
        message = f"nan or inf in {where} of the model on one device ({case.name}), so nothing can be compared"
        return Finding(code=codes.MODEL_FAILS, message=message, help="look at its configuration")
    reason = f"the process was ended {error}"
    if isinstance(error, Exception):
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300] or type(error).__name__}"
    message = f"the model itself fails on one device, without any plan ({case.name}): {reason}"
    return Finding(code=codes.MODEL_FAILS, message=message, help="look at its configuration")


def unmoved(case: Case) -> Finding:
    """What is said of a model whose output depends on none of its weights: no plan could be wrong."""
    message = f"all gradients of the model on one device are zero ({case.name}), so nothing can be compared"
    return Finding(code=codes.MODEL_FAILS, message=message, help="look at its configuration")


def unsteady(case: Case, spread: float) -> Finding:
    """What is said of a model that does not compute the same twice: by its measure, any plan would be right."""
    message = (
        f"the model on one device does not compute the same twice ({case.name}): with its sums in another order the "
        f"results are off by {spread / MARGIN:.2g} in float64, so nothing can be compared"
    )
    return Finding(code=codes.MODEL_FAILS, message=message, help="have it draw no random numbers in training mode")


def _names(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(map(star, names)))
    shown, rest = [f"`{name}`" for name in found[:MOST_NAMES]], len(found) - MOST_NAMES
    return and_list([*shown, f"{rest} other{'s' * (rest > 1)}"] if rest > 0 else shown)


def _size(error: float) -> str:
    if error == float("inf"):
        return "of another shape, or with nan or inf in place of numbers"
    return f"off by {error:.2g} of its largest element"


def _line(place: Place | None) -> str:
    return f" at line {place.start[0]}" if place else ""
