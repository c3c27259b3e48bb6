"""What must hold: the bits of plans that are graded so, in scores and in training, and the weights under ours.

No accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reward_model.graded import HELD, INVARIANT
from benchmarks.reward_model.results import Processes, Scored, Stepped

OURS, PUBLISHED, ROUNDING = "ours", "published", "rounding"
FARTHEST = 0.01  # of the way that one process's weights went, in float32; in bfloat16 rounding alone goes farther


def must_be_equal(each: Scored) -> bool:
    """Whether a measurement's plan promises the reference's bits; a plan on a mesh of one is itself a reference."""
    return each.grade in HELD and each.tp > 1


def unequal_scores(results: Sequence[Scored]) -> list[str]:
    """What is wrong with the scores: each measurement whose plan promises the reference's bits and has others."""
    held = [each for each in results if must_be_equal(each)]
    if not held:
        return ["no plan that promises equal bits was measured"]
    return [
        f"{each.plan} is graded {each.grade}, and {_said(each)}: "
        f"{each.dtype}, tp={each.tp}, seed {each.seed}, {each.set}"
        for each in held
        if not each.bitwise
    ]


def unequal_processes(processes: Sequence[Processes], scored: Sequence[Scored]) -> list[str]:
    """Each comparison of real processes with simulated ranks that a plan's grade says must be equal, and is not."""
    held = {each.plan for each in scored if must_be_equal(each)}
    return [
        f"{each.plan} promises equal bits, and {each.differing} of {each.scores} scores of real processes have others "
        f"than simulated: {each.dtype}, tp={each.tp}, seed {each.seed}"
        for each in processes
        if each.plan in held and each.differing
    ]


def wrong_training(results: Sequence[Stepped]) -> list[str]:
    """What is wrong with training: ours that is apart, astray or of other bits than promised; published if right."""
    roles = {each.role for each in results}
    said = [f"no training under the {role} plan was measured" for role in (OURS, PUBLISHED) if role not in roles]
    said += [
        f"{each.plan} at tp={each.tp} in {each.dtype}, {each.group}: {_figures(each)}"
        for each in results
        if each.role == OURS and not is_right(each)
    ]
    published = {(each.plan, each.tp, each.dtype) for each in results if each.role == PUBLISHED}
    for plan, tp, dtype in sorted(published):
        if all(is_right(each) for each in results if (each.plan, each.tp, each.dtype) == (plan, tp, dtype)):
            said.append(f"{plan} at tp={tp} in {dtype} passes, and must not: the gate sees nothing")
    return said + _unequal_training(results)


def keeps_bits(each: Stepped) -> bool:
    """Whether a plan promises the bits of training on a mesh of one, which is itself a reference."""
    return each.grade == INVARIANT and each.tp > 1


def _unequal_training(results: Sequence[Stepped]) -> list[str]:
    """Each training with other bits than promised, and each type in which nothing else has other bits either."""
    held = [each for each in results if keeps_bits(each)]
    said = [
        f"{each.plan} is graded {each.grade}, and {each.differing} of {each.numbers} weights ({each.group}) and "
        f"{each.losses_differing} of {each.steps} losses have other bits than {each.against}: "
        f"{each.dtype}, tp={each.tp}, seed {each.seed}"
        for each in held
        if not each.bitwise
    ]
    for dtype in dict.fromkeys(each.dtype for each in held):
        others = [each for each in results if each.grade != INVARIANT and each.role != PUBLISHED]
        if all(each.bitwise for each in others if each.dtype == dtype):
            said.append(f"nothing that may have other bits has any in {dtype}: the gate sees nothing")
    return said


def is_right(each: Stepped) -> bool:
    """Whether weights are the same on all ranks, and in float32 close to one process's."""
    return each.spread == 0 and (each.dtype != "float32" or each.distance < FARTHEST)


def _said(each: Scored) -> str:
    if each.differing:
        return f"{each.differing} of {each.scores} scores have other bits than {each.against}"
    return "the ranks have different bits"


def _figures(each: Stepped) -> str:
    return f"the ranks are {each.spread:.2g} apart, and {each.distance:.2g} of the way off"
