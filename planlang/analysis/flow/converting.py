"""What torch's styles do with one tensor: make a DTensor of it, convert it, make a plain tensor of it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planlang.analysis.flow import strides
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.state import REPLICATE, Tensor, normalized
from planlang.analysis.flow.tape import Converted, Move, Unwrapped, Wrapped, collective
from planlang.layout import Layout, Partial, Shard

if TYPE_CHECKING:
    from planlang.analysis.flow.forward import Frame


def _fitting(tensor: Tensor, layout: Layout, cause: Cause) -> Layout:
    """The layout with its dimension counted from the first.

    Raises:
        Conflict: the tensor has no such dimension.
    """
    dims = len(tensor.shape)
    if isinstance(layout, Shard) and not -dims <= layout.dim < dims:
        text = f"it has {dims} dimensions, and torch is to shard it along dimension {layout.dim}"
        raise Conflict(Fault.REFUSED, text, crashes=True, tensors=(tensor,), cause=cause)
    return normalized(layout, dims)


def wrap(frame: Frame, tensor: Tensor, layout: Layout, cause: Cause) -> Tensor:
    """`DTensor.from_local`: believed without a look.

    Raises:
        Conflict: the ranks' parts differ in length, so that torch gets the global shape wrong.
    """
    claim = _fitting(tensor, layout, cause)
    if tensor.truth is not None and tensor.uneven:
        dim = tensor.truth.dim if hasattr(tensor.truth, "dim") else 0
        text = f"dimension {dim} of {tensor.shape[dim]} is cut unevenly over {frame.setup.ranks} ranks"
        raise Conflict(Fault.UNEVEN, text, tensors=(tensor,), cause=cause)
    out = frame.new(tensor, claim if tensor.truth is None else tensor.truth, claim, cause)
    out.origin = tensor.cause
    out.gaps = tensor.gaps
    frame.trail.steps.append(Wrapped(tensor, out))
    return out


def convert(frame: Frame, tensor: Tensor, layout: Layout, cause: Cause) -> Tensor:
    """`redistribute`.

    Raises:
        Conflict: torch refuses, or the tensor is not what it claims to be.
    """
    target = _fitting(tensor, layout, cause)
    if tensor.claim == target:  # no data moves, but in backward the gradient is converted to this layout
        out = frame.new(tensor, tensor.truth, target, cause)
        out.gaps = tensor.gaps
        frame.trail.steps.append(Converted(tensor, out, frame.module, cause))
        return out
    if isinstance(target, Partial):
        text = f"torch converts nothing to {target}"
        raise Conflict(Fault.REFUSED, text, crashes=True, tensors=(tensor,), cause=cause)
    if not tensor.honest:
        raise Conflict(Fault.CLAIM, "it is converted", tensors=(tensor,), cause=cause)
    out = frame.new(tensor, target, target, cause)
    out.gaps = strides.left_by(tensor.claim, target, tensor.shape, frame.setup.ranks)
    kind = collective(tensor.claim or REPLICATE, target)
    if kind:
        exact = tensor.number in frame.looked_up
        frame.trail.moves.append(
            Move(kind, tensor.shape, tensor.is_float, tensor.claim or REPLICATE, frame.module, cause, exact, target)
        )
    frame.trail.steps.append(Converted(tensor, out, frame.module, cause))
    return out


def unwrap(frame: Frame, tensor: Tensor, cause: Cause) -> Tensor:
    """`to_local`."""
    out = frame.new(tensor, tensor.truth, None, cause)
    out.gaps = tensor.gaps
    frame.trail.steps.append(Unwrapped(tensor, out))
    return out
