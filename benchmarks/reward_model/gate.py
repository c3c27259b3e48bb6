"""What must hold: the bits of plans that are graded so, and the weights after training under ours. No accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reward_model.graded import HELD
from benchmarks.reward_model.results import Scored, Stepped

OURS, PUBLISHED, ROUNDING = "ours", "published", "rounding"
FARTHEST = 0.01  # of the way that one process's weights went


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


def wrong_training(results: Sequence[Stepped]) -> list[str]:
    """What is wrong with the weights after training: ours that are apart or astray, and published ones that are not."""
    roles = {each.role for each in results}
    said = [f"no training under the {role} plan was measured" for role in (OURS, PUBLISHED) if role not in roles]
    said += [
        f"{each.plan} at tp={each.tp}, {each.group}: {_figures(each)}"
        for each in results
        if each.role == OURS and not is_right(each)
    ]
    published = {(each.plan, each.tp) for each in results if each.role == PUBLISHED}
    for plan, tp in sorted(published):
        if all(is_right(each) for each in results if (each.plan, each.tp) == (plan, tp)):
            said.append(f"{plan} at tp={tp} passes, and must not: the gate sees nothing")
    return said


def is_right(each: Stepped) -> bool:
    """Whether weights are the same on all ranks, and close to one process's."""
    return each.spread == 0 and each.distance < FARTHEST


def _said(each: Scored) -> str:
    if each.differing:
        return f"{each.differing} of {each.scores} scores have other bits than {each.against}"
    return "the ranks have different bits"


def _figures(each: Stepped) -> str:
    return f"the ranks are {each.spread:.2g} apart, and {each.distance:.2g} of the way off"
