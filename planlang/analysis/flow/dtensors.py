"""What DTensor does with an operator whose tensors are all DTensors.

Where all of them are what they claim to be, DTensor computes what the single device computes, converting where it must.
Where one is not, the operator must be one that DTensor runs on the local data as it is, and then claims and truths go
their own ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planlang.analysis.flow import choice, strides
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.operators import pointwise, views
from planlang.analysis.flow.state import REPLICATE, Tensor
from planlang.analysis.flow.tape import Move, collective
from planlang.layout import Layout, Partial, Shard
from planlang.model.graph import Op

if TYPE_CHECKING:
    from planlang.analysis.flow.forward import Frame


def layouts(frame: Frame, op: Op, found: list[Tensor]) -> list[tuple[Layout | None, Layout | None]]:
    """Truth and claim of each result.

    Raises:
        Conflict: torch raises, or a tensor is not what it claims to be where that matters.
    """
    _reshaped(op, found, frame)
    claims = [each.claim or REPLICATE for each in found]
    if all(each.honest for each in found):
        try:
            after: Sequence[Layout] = frame.run(op, found, claims)
            if _masked(frame, op, found) or _empty(op, found) or _short(op, found) or _summed(op, found):
                after = _chosen(frame, op, found) or after
        except Conflict as conflict:
            after = _converted(frame, op, found, conflict)
        return [(layout, layout) for layout in after]
    if op.name.rpartition(".")[2].strip("_") in views.RULES:
        liar = next(each for each in found if not each.honest)
        raise Conflict(Fault.CLAIM, "it is reshaped", tensors=(liar,), cause=liar.cause)
    try:
        claimed = frame.run(op, found, claims, seen=True)
    except Conflict as conflict:
        liar = next(each for each in found if not each.honest)
        raise Conflict(Fault.CLAIM, conflict.text, None, (liar, *found), cause=liar.cause) from None
    try:
        true = frame.run(op, found, [each.truth for each in found])
    except Conflict as conflict:
        liar = next(each for each in found if not each.honest)
        raise Conflict(Fault.CLAIM, conflict.text, conflict.crashes, (liar, *found), cause=liar.cause) from None
    return list(zip(true, claimed, strict=True))


def _reshaped(op: Op, found: Sequence[Tensor], frame: Frame) -> None:
    """A reshape, or a linear layer's of its input, is a view of each rank's part, which torch does not always give."""
    x = found[0]
    if op.name.endswith("linear"):
        strides.check_linear(x, x.claim, x.gaps)
    elif x.gaps and op.outs:
        strides.check_reshape(op.name, x, x.claim, x.gaps, frame.shape(op.outs[0]))


def looks_up(frame: Frame, op: Op, found: Sequence[Tensor]) -> bool:
    """Whether a partial result is torch's `_MaskPartial`: of a lookup in a cut vocabulary, or a view of one."""
    name = op.name.rpartition(".")[2].strip("_")
    return name == "embedding" or (name in views.RULES and found[0].number in frame.looked_up)


def _masked(frame: Frame, op: Op, found: Sequence[Tensor]) -> bool:
    """Whether torch sums a tensor first for which a sum could wait: no operator but a view takes a `_MaskPartial`."""
    name = op.name.rpartition(".")[2].strip("_")
    return name not in views.RULES and any(each.number in frame.looked_up for each in found)


def _empty(op: Op, found: Sequence[Tensor]) -> bool:
    """Whether a matrix product is to run where some rank has nothing of a tensor, which torch does not let it do."""
    cut = ((each.claim, each) for each in found)
    return op.name.endswith("linear") and any(isinstance(c, Shard) and x.shape[c.dim] < x.ranks for c, x in cut)


def _short(op: Op, found: Sequence[Tensor]) -> bool:
    """Whether `layer_norm` is to run where some rank has nothing of a tensor: torch gathers it first."""
    name = op.name.rpartition(".")[2].strip("_")
    claim = found[0].claim
    return name == "layer_norm" and isinstance(claim, Shard) and found[0].shape[claim.dim] < found[0].ranks


def _summed(op: Op, found: Sequence[Tensor]) -> bool:
    """Whether torch sums a partial tensor first though the operator is linear: nobody registered it as that."""
    name = op.name.rpartition(".")[2].strip("_")
    return name in ("clone", "mean") and isinstance(found[0].claim, Partial)


def _chosen(frame: Frame, op: Op, found: Sequence[Tensor]) -> list[Layout] | None:
    """The layouts of the results where it is known what DTensor converts to; `None` where it is not."""
    name = op.name.rpartition(".")[2].strip("_")
    have = [each.claim or REPLICATE for each in found]
    shapes = [each.shape for each in found]
    ranks = frame.setup.ranks
    if name == "linear":
        row = choice.linear(have[0], have[1], shapes[0], shapes[1], ranks)
        last = len(shapes[0]) - 1
        bias: Layout = Shard(0) if row.out == Shard(last) else row.out if isinstance(row.out, Partial) else REPLICATE
        used: tuple[Layout, ...] = (*row.ins, *(bias for _ in found[2:]))
    elif name in pointwise.RULES:
        lookup = [Partial("max") if each.number in frame.looked_up else each.claim or REPLICATE for each in found]
        row = choice.pointwise(name, lookup, shapes, ranks)
        used = row.ins
    elif _summed(op, found) or _short(op, found):
        row = choice.Row((REPLICATE,) * len(found), REPLICATE)
        used = row.ins
    else:
        return None
    for each, layout in zip(found, used, strict=True):
        _moved(frame, each, layout)
    frame.used = used
    return [row.out for _ in op.outs]


def _converted(frame: Frame, op: Op, found: list[Tensor], conflict: Conflict) -> list[Layout]:
    """What DTensor chooses where it must convert first: partial sums are summed, then the rest is gathered."""
    name = op.name.rpartition(".")[2]
    if conflict.fault is Fault.UNKNOWN:
        raise conflict
    if name in strides.RESHAPES or name == "scaled_dot_product_attention":
        conflict.crashes = True
        raise conflict
    chosen = _chosen(frame, op, found)
    if chosen is not None:
        return chosen
    summed: list[Layout] = [REPLICATE if isinstance(each.claim, Partial) else each.claim or REPLICATE for each in found]
    for each, layout in zip(found, summed, strict=True):
        _moved(frame, each, layout, certain=False)
    try:
        return list(frame.run(op, found, summed))
    except Conflict:
        pass
    cut = next((layout for layout in summed if isinstance(layout, Shard)), None)
    if cut is not None:  # whole tensors are cut without moving data
        dims = max(len(each.shape) for each in found)
        dim = next(
            layout.dim + dims - len(each.shape)
            for each, layout in zip(found, summed, strict=True)
            if isinstance(layout, Shard)
        )
        aligned: list[Layout] = []
        for each in found:
            own = dim - (dims - len(each.shape))
            aligned.append(Shard(own) if own >= 0 and each.shape[own] != 1 else REPLICATE)
        try:
            answer = list(frame.run(op, found, aligned))
        except Conflict:
            pass
        else:
            for each, before, layout in zip(found, summed, aligned, strict=True):
                _moved(frame, each, layout, before, certain=False)
            return answer
    for each, before in zip(found, summed, strict=True):
        _moved(frame, each, REPLICATE, before, certain=False)
    return [REPLICATE for _ in op.outs]


def _moved(frame: Frame, tensor: Tensor, target: Layout, source: Layout | None = None, *, certain: bool = True) -> None:
    source = source or tensor.claim or REPLICATE
    kind = collective(source, target)
    if kind:
        exact = tensor.number in frame.looked_up
        frame.trail.moves.append(
            Move(kind, tensor.shape, tensor.is_float, source, frame.module, tensor.cause, exact, target, certain)
        )
