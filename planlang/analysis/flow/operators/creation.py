"""Operators that make tensors: from sizes alone, or like another."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import REPLICATE, Refusal, Run, undistributed
from planlang.layout import Layout, Partial
from planlang.model.graph import Argument, Size

_FROM_SIZES = ("arange", "zeros", "ones", "full", "empty", "tensor", "eye", "linspace", "new_tensor")
_NEW = ("new_zeros", "new_ones", "new_full", "new_empty")
_LIKE = ("zeros_like", "ones_like", "empty_like", "full_like")


def sizes_hold(run: Run) -> None:
    """Refuses where a size that the code read is another on a rank than on a single device."""

    def visit(argument: Argument) -> None:
        if isinstance(argument, Size):
            for rank in run.edges:
                if run.number(argument, rank) != argument.number:
                    text = (
                        f"`{run.name}` gets the length {run.number(argument, rank)}, read off a tensor of which the "
                        f"rank has a part, where the single device has {argument.number}"
                    )
                    raise Refusal(Fault.LENGTH, text, crashes=None)
        elif isinstance(argument, tuple):
            for each in argument:
                visit(each)

    for argument in run.op.args:
        visit(argument)
    for _, argument in run.op.kwargs:
        visit(argument)


def _from_sizes(run: Run) -> tuple[Layout, ...]:
    sizes_hold(run)
    return tuple(REPLICATE for _ in run.outs)


def _like(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    return (REPLICATE if operand.partial else operand.layout,)


def _triangle(run: Run) -> tuple[Layout, ...]:
    """`tril(x, diagonal)` and `triu`: numbers become 0 by their place in the last two dimensions."""
    sizes_hold(run)
    operand = run.operands[0]
    if operand.layout != REPLICATE:
        undistributed(run)
    if operand.sharded is not None and operand.sharded >= operand.dims - 2:
        text = f"`{run.name.strip('_')}` goes by places along dimension {operand.sharded}, which is sharded"
        raise Refusal(Fault.CUT, text, crashes=False, blame=(0,))
    if isinstance(operand.layout, Partial) and operand.layout.op not in ("sum", "avg"):
        raise Refusal(Fault.PARTIAL, f"`{run.name}` is taken of a partial {operand.layout.op}", blame=(0,))
    return (operand.layout,)


RULES = dict.fromkeys((*_FROM_SIZES, *_NEW), _from_sizes) | dict.fromkeys(_LIKE, _like)
RULES |= dict.fromkeys(("tril", "triu"), _triangle)
