"""What is known of a tensor of the parallel run.

Two layouts are kept apart. The *truth* says how a rank's data relates to the tensor of the single device. The *claim*
is what a DTensor believes of itself; a plain tensor claims nothing. `DTensor.from_local` believes what a style declares
without looking (`run_check=False`), so the two can part, and a program goes wrong where something is computed from a
claim that is not true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from planlang.analysis.flow.cause import Cause
from planlang.layout import Layout, Partial, Replicate, Shard, shard_size

REPLICATE = Replicate()
Gaps: TypeAlias = frozenset[int]  # dimensions between whose numbers there is something else in memory (`strides.py`)


@dataclass(slots=True, eq=False)
class Tensor:
    """A tensor on the ranks of one mesh axis.

    Attributes:
        shape: its shape on a single device.
        truth: how it really lies; `None` where that is not known.
        claim: how the DTensor says that it lies; `None` for a plain tensor.
        ranks: the size of the axis.
        is_float: whether it can carry a gradient.
        grad: whether one flows to it.
        cause: the rule and module that made it lie this way.
        number: its place among the tensors of its frame.
        source: the innermost module that it comes from.
        origin: for a DTensor that a boundary made of a plain tensor, the rule and module that had made that one.
        gaps: the dimensions along which a conversion of uneven parts left gaps in memory.
    """

    shape: tuple[int, ...]
    truth: Layout | None
    claim: Layout | None
    ranks: int
    is_float: bool = True
    grad: bool = True
    cause: Cause | None = None
    number: int = field(default=-1)
    source: str = ""
    origin: Cause | None = None
    gaps: Gaps = frozenset()

    @property
    def plain(self) -> bool:
        """Whether it is no DTensor."""
        return self.claim is None

    @property
    def honest(self) -> bool:
        """Whether what it claims is true; a plain tensor claims nothing."""
        return self.claim is None or self.claim == self.truth

    @property
    def whole(self) -> bool:
        """Whether it is a plain tensor that every rank has whole."""
        return self.claim is None and self.truth == REPLICATE

    @property
    def uneven(self) -> bool:
        """Whether the ranks' parts differ in length."""
        return isinstance(self.truth, Shard) and self.shape[self.truth.dim] % self.ranks != 0

    def local_shape(self, rank: int = 0) -> tuple[int, ...]:
        """The shape of a rank's data."""
        if not isinstance(self.truth, Shard):
            return self.shape
        dim = self.truth.dim
        return (*self.shape[:dim], shard_size(self.shape[dim], self.ranks, rank), *self.shape[dim + 1 :])

    def seen_shape(self, rank: int = 0) -> tuple[int, ...]:
        """The shape that the model's code sees: the local one of a plain tensor, the global one of a DTensor.

        A DTensor works its global shape out from its local one and its claim, so a false claim gives a false shape.
        """
        if self.claim is None or self.honest:
            return self.local_shape(rank) if self.claim is None else self.shape
        local = self.local_shape()
        if not isinstance(self.claim, Shard):
            return local
        dim = self.claim.dim
        return (*local[:dim], local[dim] * self.ranks, *local[dim + 1 :])

    @property
    def key(self) -> tuple[object, ...]:
        """What two tensors have in common that fare alike."""
        return (self.truth, self.claim, self.cause, self.shape, self.gaps)


@dataclass(frozen=True, slots=True)
class Gradient:
    """A gradient that arrives at a tensor: how it really lies, and what a DTensor's claims. `None`: not known.

    `gaps` are the dimensions along which a conversion of uneven parts left gaps in memory.
    """

    truth: Layout | None
    claim: Layout | None
    gaps: Gaps = frozenset()

    @property
    def honest(self) -> bool:
        return self.claim is None or self.claim == self.truth


def normalized(layout: Layout, dims: int) -> Layout:
    """The layout with its dimension counted from the first."""
    return Shard(layout.dim % dims) if isinstance(layout, Shard) and dims else layout


def for_gradient(layout: Layout) -> Layout:
    """The layout that torch gives a gradient by default: a partial tensor's gradient is replicated (`_api.py`)."""
    return REPLICATE if isinstance(layout, Partial) else layout
