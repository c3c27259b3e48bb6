"""Plain rules beside invariant ones, and dropout: one is enough for the bits to depend on the number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planlang.analysis.checks.case import Case, Use
from planlang.analysis.coverage import dropout, splits_plainly
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, Related
from planlang.plan.spell import style_text
from planlang.plan.styles import Colwise, Custom, Rowwise, Sequence, blocks_of


def check_mixed(case: Case) -> Iterator[Finding]:
    """Each plain rule that splits a computation of a model of which invariant rules split others; dropout."""
    uses = list(case.uses())
    invariant = next((use for use in uses if blocks_of(use.rule.style)), None)
    if invariant is None:
        return
    seen: set[int] = set()
    for use in uses:
        if id(use.rule) not in seen and _splits(use):
            seen.add(id(use.rule))
            yield _mixed(use, invariant)
    if found := dropout(case.tree):
        yield _random(*found, invariant)


def _splits(use: Use) -> bool:
    style, node = use.rule.style, use.site.node
    if isinstance(style, Custom):  # only it knows
        return False
    bare = not node.parameters and not node.children  # a norm without a weight adds nothing up
    return splits_plainly(style, node.kind) and (isinstance(style, Colwise | Rowwise) or not bare)


def _mixed(use: Use, invariant: Use) -> Finding:
    style, blocks = use.rule.style, blocks_of(invariant.rule.style)
    match style:
        case Colwise():
            breaks = "the width of its product, and the sum of its input's gradient, depend on the number of ranks"
        case Rowwise():
            breaks = (
                "the terms of its product's sum, and the order in which they are added, depend on the number of ranks"
            )
        case _:
            breaks = "the gradient of its parameters is a sum over the ranks, whose terms depend on how many there are"
    if isinstance(style, Colwise | Rowwise | Sequence):
        instead = f"write `{style_text(replace(style, invariant=blocks))}`"
    else:
        instead = f"write `sequence(dim=…, local=true, invariant={blocks})`, with the dimension that is split"
    place = invariant.place
    return Finding(
        code=codes.MIXED_INVARIANCE,
        message=f"the rule of {use.name} is plain beside invariant ones, so the plan is not graded `invariant`",
        place=use.place,
        notes=(breaks,),
        related=(Related(place=place, message="an invariant rule"),) if place else (),
        help=instead,
    )


def _random(setting: str, share: float, invariant: Use) -> Finding:
    return Finding(
        code=codes.MIXED_INVARIANCE,
        message=f"`{setting}` of the model is {share:g}, so the plan is not graded `invariant`",
        place=invariant.place,
        notes=("in training each rank draws what it drops from its own part, so that depends on how many there are",),
        help=f"set `{setting}` to 0 if the model is trained; in evaluation mode nothing is dropped",
    )
