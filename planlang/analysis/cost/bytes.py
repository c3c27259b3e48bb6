"""How many bytes tensors take and collectives move."""

from __future__ import annotations

from math import prod

from planlang.analysis.flow.tape import Collective
from planlang.layout import Layout, Shard

WIDTHS = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}  # bytes of a number
INTEGER = 8  # bytes: token numbers are int64


def payload_shape(shape: tuple[int, ...], source: Layout, target: Layout, ranks: int) -> tuple[int, ...]:
    """The shape of what a rank puts into the collective that converts a tensor.

    Parts that differ in length are filled up to the longest one first, in both the dimension that is cut and the one
    that will be (`Shard._maybe_pad_tensor`, `_reduce_shard_tensor` and `_pad_for_new_shard_dim` of torch 2.13).

    Args:
        shape: the global shape.
        source: its layout before.
        target: its layout after.
        ranks: the size of the mesh axis.
    """
    sizes = list(shape)
    if isinstance(target, Shard):
        sizes[target.dim] = -(-sizes[target.dim] // ranks) * ranks
    if isinstance(source, Shard):
        sizes[source.dim] = -(-sizes[source.dim] // ranks)
    return tuple(sizes)


def tree_shape(kind: Collective, shape: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    """The same for half of a sum in a fixed order (`planlang.runtime.invariant.sums`), which flattens the tensor.

    What the ranks do not divide is filled up.

    Args:
        kind: `all_to_all`, of all chunks, or `all_gather`, of a rank's one.
        shape: the global shape.
        ranks: the size of the mesh axis.
    """
    numbers = prod(shape)
    chunk = -(-numbers // ranks)
    if kind == "all_gather":
        return (chunk,)
    return shape if chunk * ranks == numbers else (chunk * ranks,)


def payload_bytes(shape: tuple[int, ...], *, is_float: bool, width: int) -> int:
    """The bytes of what a rank puts in.

    Args:
        shape: its shape.
        is_float: whether it holds floating-point numbers; others are token numbers.
        width: bytes of a floating-point number.
    """
    return prod(shape) * (width if is_float else INTEGER)


def ring_bytes(kind: Collective, payload: int, ranks: int) -> int:
    """The bytes that a rank sends, and receives, where the collective runs as a ring.

    Args:
        kind: which collective.
        payload: bytes of what a rank puts in: a whole tensor for `all_reduce` and `reduce_scatter`, a part for
            `all_gather` and `all_to_all`.
        ranks: how many ranks take part.
    """
    match kind:
        case "all_reduce":  # a reduce-scatter, then an all-gather
            return -(-2 * (ranks - 1) * payload // ranks)
        case "all_gather":
            return (ranks - 1) * payload
        case "reduce_scatter" | "all_to_all":
            return -(-(ranks - 1) * payload // ranks)
