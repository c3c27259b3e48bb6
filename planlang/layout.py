"""How a tensor lies on one mesh axis: pure Python, the words of `torch.distributed.tensor`.

The three layouts are torch's placements `Replicate`, `Shard` and `Partial`; they are kept apart from torch so that
reading, checking and showing a plan never imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

ReduceOp: TypeAlias = Literal["sum", "avg", "max", "min"]
REDUCE_OPS: tuple[ReduceOp, ...] = get_args(ReduceOp)


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every rank holds the whole tensor."""

    def __str__(self) -> str:
        return "replicate"


@dataclass(frozen=True, slots=True)
class Shard:
    """Each rank holds a contiguous part along `dim`; a negative `dim` counts from the last."""

    dim: int

    def __str__(self) -> str:
        return f"shard({self.dim})"


@dataclass(frozen=True, slots=True)
class Partial:
    """Each rank holds one term; the tensor is their reduction by `op`."""

    op: ReduceOp = "sum"

    def __str__(self) -> str:
        return "partial" if self.op == "sum" else f"partial({self.op})"


Layout: TypeAlias = Replicate | Shard | Partial


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a tensor arrives as and what it is turned into at a module boundary."""

    source: Layout
    target: Layout

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


def shard_size(size: int, parts: int, rank: int = 0) -> int:
    """The length of `rank`'s part of a dimension of length `size` cut into `parts`, as `torch.chunk` cuts it.

    Every part is ``ceil(size / parts)`` long until the dimension runs out, so rank 0 holds the longest part and the
    last ranks may hold none (`torch.distributed.tensor.placement_types.Shard`).
    """
    step = -(-size // parts)
    return max(0, min(step, size - rank * step))


def local_shape(shape: tuple[int, ...], layout: Layout, parts: int, rank: int = 0) -> tuple[int, ...]:
    """The shape that `rank` holds of a tensor of the global `shape`."""
    if not isinstance(layout, Shard):
        return shape
    dim = layout.dim % len(shape)
    return (*shape[:dim], shard_size(shape[dim], parts, rank), *shape[dim + 1 :])
