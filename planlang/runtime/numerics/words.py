"""The wording of what a measurement found."""

from __future__ import annotations

from planlang.analysis.flow.words import and_list, star
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.plan import ir
from planlang.runtime.numerics.report import Measured, Reference, Side
from planlang.runtime.numerics.tokens import ALARM
from planlang.runtime.simulate import Crash

MOST_NAMES = 3


def failed(error: Exception, dtype: str) -> Finding:
    """What is said of a model that raises by itself, without a plan."""
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    message = f"the model itself fails on one device in {dtype}, without any plan: {type(error).__name__}: {reason}"
    return Finding(code=codes.MODEL_FAILS, message=message, help="try another `--dtype`, or look at its configuration")


def no_numbers(dtype: str) -> Finding:
    """What is said of a model whose own output holds nan or inf."""
    message = f"the output of the model on one device holds nan or inf in {dtype}, so nothing can be compared"
    return Finding(code=codes.MODEL_FAILS, message=message, help="try another `--dtype`, or look at its configuration")


def unmoved(dtype: str) -> Finding:
    """What is said of a model whose output depends on none of its weights: all plans would be equal."""
    message = f"all gradients of the model on one device are zero in {dtype}, so nothing can be compared"
    return Finding(code=codes.MODEL_FAILS, message=message, help="try another `--dtype`, or look at its configuration")


def raised(crash: Crash, name: str, ranks: int, plan: ir.Plan) -> Finding:
    """What is said of a plan that raises.

    Args:
        crash: what was raised.
        name: the module in the real model; empty where it is not known.
        ranks: on how many.
        plan: the plan.
    """
    at = f"`{name}`" if name else "the model"
    message = f"{at} raises on {_ranks(ranks)}: {crash.exception}: {crash.message}"
    return Finding(
        code=codes.RAISES_WHEN_RUN, message=message, place=plan.place, help="`planlang verify` looks for the rule"
    )


def judged(measured: Measured, reference: Reference, plan: ir.Plan) -> list[Finding]:
    """What is to be said of one number of ranks."""
    found = []
    for side in measured.sides:
        if not side.logits.finite:
            found.append(_wrong(measured, side, plan))
        elif side.tokens and not side.tokens.prob_error <= ALARM:
            found.append(_alarm(measured, side, plan))
    refuted = _refuted(measured, reference, plan)
    return found[:1] + ([refuted] if refuted else [])


def _wrong(measured: Measured, side: Side, plan: ir.Plan) -> Finding:
    message = f"the logits on {_ranks(measured.ranks)} have another shape than on one device, or hold nan or inf"
    first = next((name for name, each in side.modules.items() if not each.finite), None)
    notes = (f"so does the output of `{first}`, before all others",) if first else ()
    return Finding(
        code=codes.WRONG_OUTPUT, message=message, place=plan.place, notes=notes, help="run `planlang verify` first"
    )


def _alarm(measured: Measured, side: Side, plan: ir.Plan) -> Finding:
    assert side.tokens is not None
    kernels = "torch's kernels" if side.kernels == "default" else "fixed shapes"
    message = (
        f"the probabilities of tokens on {_ranks(measured.ranks)} are off by a factor of {side.tokens.prob_error:.3g} "
        f"in the mean, with {kernels}"
    )
    return Finding(
        code=codes.PROBABILITIES_OFF,
        message=message,
        place=plan.place,
        notes=(f"`token_mult_prob_error` above {ALARM} is what NeMo-RL's documentation has one look into",),
        help="run `planlang verify`, which tells a wrong plan from rounding",
    )


def _refuted(measured: Measured, reference: Reference, plan: ir.Plan) -> Finding | None:
    """Where the grade promises equal bits and they are not.

    What is graded `invariant` and held against itself on one rank has no product of another width, so it is held to
    its grade with torch's kernels too. A plan that sums in blocks is graded against itself alone.
    """
    if measured.grade not in ("invariant", "forward-invariant") or (measured.blocks and reference == "unsharded"):
        return None
    whole = measured.grade == "invariant"
    held = measured.sides if whole and reference == "tp1" else (measured.fixed,)
    for side in held:
        if side.logits.finite and not (side.forward and (side.backward or not whole)):
            return _refutation(measured, side, plan)
    return None


def _refutation(measured: Measured, side: Side, plan: ir.Plan) -> Finding:
    kernels = "with products in fixed tiles" if side.kernels == "fixed" else "with torch's kernels"
    names = [f"`{name}`" for name in dict.fromkeys(star(n) for n, each in side.gradients.items() if not each.equal)]
    shown = and_list([*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} others"] if len(names) > MOST_NAMES else names)
    what = "the logits" if not side.forward else f"the gradients of {shown}"
    notes = []
    if side.first:
        notes.append(f"the first module whose bits are others is `{star(side.first)}`")
    if side.left:
        notes.append(f"fixed tiles do not cover {and_list(list(side.left))}")
    return Finding(
        code=codes.GRADE_REFUTED,
        message=(
            f"the plan is graded `{measured.grade}`, and {kernels} {what} on {_ranks(measured.ranks)} have other bits "
            "than the reference"
        ),
        place=plan.place,
        notes=tuple(notes),
        help="do not rely on the grade, and please report it, with the plan and the model",
    )


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
