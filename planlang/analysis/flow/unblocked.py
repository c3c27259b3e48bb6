"""What computes with a rank's part beside invariant rules, and under none of them.

How an operator adds up, or which kernel it is, may depend on how much it is given. So beside invariant rules each one
that gets a part of a tensor is to run in blocks, but for those that do one exact operation a number, both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from planlang.analysis.coverage import splits_plainly
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.forward import Frame
from planlang.analysis.flow.operators import creation, indexing, pointwise, views, writing
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.setup import Setup
from planlang.analysis.flow.state import Tensor
from planlang.analysis.flow.tape import Called, Computed
from planlang.analysis.flow.words import operator_text, star
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.layout import Shard
from planlang.plan.styles import Attention, Sequence, blocks_of

_EXACT = frozenset((*pointwise.EXACT, *views.RULES, *indexing.RULES, *creation.RULES, *writing.RULES, "embedding"))
# What `attention` answers for: it takes the first two apart; a row of softmax is whole on a rank.
_BY_HEAD = frozenset(("scaled_dot_product_attention", "matmul", "softmax", "expand"))
# The gradient of what these repeat is a sum.
_REPEATING = frozenset((*pointwise.EXACT, "expand", "repeat", "repeat_interleave", "tile"))


def unblocked(walked: Pass) -> Iterator[Computed]:
    """The operators of a pass that are given a rank's part, under no rule that computes in blocks."""
    setup = walked.frame.setup
    for frame in _frames(walked.frame):
        for step in frame.trail.steps:
            if isinstance(step, Computed) and _gets_parts(step) and not _in_blocks(setup, step):
                yield step


def _frames(frame: Frame) -> Iterator[Frame]:
    yield frame
    below = {id(step.frame): step.frame for step in frame.trail.steps if isinstance(step, Called)}
    for inner in below.values():
        yield from _frames(inner)


def _gets_parts(step: Computed) -> bool:
    operator = operator_text(step.operator)
    if operator in _EXACT:
        return operator in _REPEATING and any(_is_part(each) and _is_repeated(each, step) for each in step.ins)
    return any(map(_is_part, step.operands))


def _is_part(tensor: Tensor) -> bool:
    return isinstance(tensor.truth, Shard) and tensor.is_float


def _is_repeated(tensor: Tensor, step: Computed) -> bool:
    """Whether a result has more numbers than a tensor that it is made of."""
    return any(prod(out.shape) > prod(tensor.shape) for out in step.outs)


def _in_blocks(setup: Setup, step: Computed) -> bool:
    applied = setup.applied.get(step.module)
    if applied and not isinstance(applied.style, Attention) and blocks_of(applied.style):
        return True
    module: str = step.module
    while True:
        applied = setup.applied.get(module)
        style = applied.style if applied else None
        if isinstance(style, Sequence) and style.invariant:
            return True
        if isinstance(style, Attention) and operator_text(step.operator) in _BY_HEAD:
            return True
        if not module:
            return False
        module = module.rpartition(".")[0]


def unblocked_findings(passes: Iterable[Pass]) -> Iterator[Finding]:
    """A finding for each module that computes with a rank's part, of a plan with invariant rules.

    Plain rules, whose products and sums are of this kind too, are found without a graph (`checks/mixed.py`).
    """
    seen: set[tuple[str, bool]] = set()
    for walked in passes:
        setup = walked.frame.setup
        invariant = [each for each in setup.applied.values() if blocks_of(each.style)]
        if not invariant or setup.ranks == 1:
            return
        for step in unblocked(walked):
            applied = setup.applied.get(step.module)
            if applied and splits_plainly(applied.style, setup.kinds.get(step.module)):
                continue
            module = star(step.module)
            by_head = operator_text(step.operator) in _BY_HEAD
            if (module, by_head) in seen:
                continue
            seen.add((module, by_head))
            cause = next((each.cause for each in step.operands if each.cause and isinstance(each.truth, Shard)), None)
            yield _finding(step, module, blocks_of(invariant[0].style), cause)


def _finding(step: Computed, module: str, blocks: int, cause: Cause | None) -> Finding:
    operator = operator_text(step.operator)
    if operator in _BY_HEAD:
        help_ = f"write `{module}: attention(invariant={blocks})`"
    else:
        dim = next(each.truth.dim for each in step.operands if isinstance(each.truth, Shard))
        style = f"sequence(dim={dim}, local=true, invariant={blocks})"
        help_ = f"write `{module}: {style}` if that module has no parameters below its own"
    rule = cause.applied.rule if cause else None
    return Finding(
        code=codes.MIXED_INVARIANCE,
        message=f"`{operator}` in `{module}` computes with a rank's part at once, beside invariant rules, "
        "so the plan is not graded `invariant`",
        place=rule.place if rule else None,
        notes=("which kernel it is, and how that adds up, may depend on how much of a tensor a rank has",),
        help=help_,
    )
