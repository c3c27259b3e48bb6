"""What the invariant styles do at a module's edge (`planlang.runtime.invariant`).

What runs inside is local code; here it is walked as the product of DTensors that it computes, and only what crosses
ranks is another: sums run in a tree, as an all-to-all and an all-gather.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.converting import convert, unwrap, wrap
from planlang.analysis.flow.state import REPLICATE, Tensor, normalized
from planlang.analysis.flow.tape import Converted, Move, Shared, tree_moves
from planlang.layout import Layout, Partial, Replicate, Shard
from planlang.model.tree import Kind
from planlang.plan.styles import Colwise, Rowwise, Sequence

if TYPE_CHECKING:
    from planlang.analysis.flow.forward import Frame


def arrive(frame: Frame, style: Colwise | Rowwise | Sequence, x: Tensor, cause: Cause) -> Tensor:
    """The input that a module sees in place of the one it was called with.

    Raises:
        Conflict: the input does not lie as declared, its parts or blocks differ in length, or torch refuses.
    """
    embedding = frame.setup.kinds.get(cause.module) is Kind.EMBEDDING
    match style:
        case Sequence():
            return _cut(frame, style, x, cause)
        case Colwise() if not embedding:
            return _shared(frame, style, x, cause)
        case _:
            wanted: Layout = Replicate() if embedding else Shard(-1)
            return _anew(frame, _lying(frame, x, style.in_, wanted, cause), cause)


def depart(frame: Frame, style: Colwise | Rowwise | Sequence, y: Tensor, cause: Cause) -> Tensor:
    """The output that leaves a module in place of the one that it computed.

    Raises:
        Conflict: it does not lie as the style says, or torch refuses the conversion.
    """
    if isinstance(style, Sequence):
        placed = _believed(frame, y, Shard(style.dim), cause)
        return unwrap(frame, placed, cause) if style.local else placed
    looked_up = y.number in frame.looked_up  # its sum is exact, and torch's own
    if isinstance(y.claim, Partial) and not looked_up:
        y = _summed(frame, style, y, cause)
    wanted = normalized(style.out, len(y.shape))
    if y.claim == wanted and style.local:
        return unwrap(frame, y, cause)
    if not looked_up:
        y = wrap(frame, unwrap(frame, y, cause), y.claim or REPLICATE, cause)
    if y.claim != wanted:
        y = convert(frame, y, style.out, cause)
    return unwrap(frame, y, cause) if style.local else y


def _believed(frame: Frame, tensor: Tensor, layout: Layout, cause: Cause) -> Tensor:
    """A plain tensor as it is declared to lie."""
    out = wrap(frame, tensor, layout, cause)
    if not out.honest:
        raise Conflict(Fault.CLAIM, "it is computed in blocks", tensors=(out,), cause=cause)
    return out


def _lying(frame: Frame, x: Tensor, declared: Layout, wanted: Layout, cause: Cause) -> Tensor:
    """An input as a DTensor that lies as wanted."""
    x = _believed(frame, x, declared, cause) if x.claim is None else x
    return x if x.claim == normalized(wanted, len(x.shape)) else convert(frame, x, wanted, cause)


def _anew(frame: Frame, x: Tensor, cause: Cause) -> Tensor:
    """The same without gaps in memory: the styles flatten what they get."""
    if not x.gaps:
        return x
    plain = unwrap(frame, x, cause)
    plain.gaps = frozenset()
    return wrap(frame, plain, x.claim or REPLICATE, cause)


def _cut(frame: Frame, style: Sequence, x: Tensor, cause: Cause) -> Tensor:
    """A rank's part of an input, which the module's own code sees block by block as a plain tensor."""
    cut = Shard(style.dim)
    placed = _lying(frame, x, cut, cut, cause)
    length = x.shape[cut.dim]
    if length % style.invariant:
        text = f"dimension {cut.dim} of {length} is cut into {style.invariant} blocks, which do not come out even"
        raise Conflict(Fault.UNEVEN, text, crashes=True, tensors=(placed,), cause=cause)
    plain = unwrap(frame, placed, cause)
    plain.gaps = frozenset()
    return plain


def _shared(frame: Frame, style: Colwise, x: Tensor, cause: Cause) -> Tensor:
    """The whole input of a linear layer's columns: one for all layers that are given the same tensor."""
    key = (style.invariant, style.reduce, style.in_ if x.claim is None else None)
    known = frame.shared.get(x.number)  # the mark that is left on a tensor: the last layer's with other settings
    if known is not None and known[0] == key:
        return known[1]
    source = _believed(frame, x, style.in_, cause) if x.claim is None else x
    if isinstance(source.claim, Partial):
        source = convert(frame, source, REPLICATE, cause)
    if not source.honest:
        raise Conflict(Fault.CLAIM, "it is computed in blocks", tensors=(source,), cause=cause)
    if source.uneven and isinstance(source.claim, Shard):
        dim = source.claim.dim
        text = f"dimension {dim} of {source.shape[dim]} is cut unevenly over {frame.setup.ranks} ranks"
        raise Conflict(Fault.UNEVEN, text, tensors=(source,), cause=cause)
    out = frame.new(source, REPLICATE, REPLICATE, cause)
    if isinstance(source.claim, Shard):
        frame.trail.moves.append(
            Move("all_gather", source.shape, source.is_float, source.claim, frame.module, cause, target=REPLICATE)
        )
    frame.trail.steps.append(Shared(source, out, style.reduce, frame.module, cause))
    frame.shared[x.number] = (key, out)
    return out


def _summed(frame: Frame, style: Colwise | Rowwise, y: Tensor, cause: Cause) -> Tensor:
    out = frame.new(y, REPLICATE, REPLICATE, cause)
    frame.trail.moves += tree_moves(y.shape, style.reduce, frame.module, cause, REPLICATE)
    frame.trail.steps.append(Converted(y, out, frame.module, cause))
    return out
