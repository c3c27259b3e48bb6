"""What the forward walk leaves behind for the backward walk, and for the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.conflict import Conflict
from planlang.analysis.flow.state import Tensor
from planlang.layout import Layout, Partial, Replicate, Shard
from planlang.plan.styles import Tree

if TYPE_CHECKING:
    from planlang.analysis.flow.forward import Frame

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


@dataclass(frozen=True, slots=True)
class Move:
    """A collective.

    Attributes:
        kind: which.
        shape: the global shape of the tensor that is converted.
        is_float: whether it holds floating-point numbers.
        source: its layout before.
        module: where, by the name inside the frame.
        cause: the rule that asks for it.
        exact: whether its sum has one term that is not zero for each number (a lookup in a vocabulary that is cut), so
            that the order of the sum does not matter.
        target: its layout after.
        certain: whether torch is known to run it: DTensor chooses some conversions itself, not all by rules known here.
        tree: for half of a sum in one fixed order, how that is added up: an all-to-all, in which each rank gets its
            chunk of all terms of the flattened tensor, or the all-gather of the chunks' sums.
    """

    kind: Collective
    shape: tuple[int, ...]
    is_float: bool
    source: Layout
    module: str
    cause: Cause | None
    exact: bool = False
    target: Layout = Replicate()
    certain: bool = True
    tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """An operator.

    Attributes:
        ins: the tensors that a gradient flows to.
        outs: its results.
        operator: its name.
        module: the innermost module that ran.
        operands: all its tensors, in the order in which the arguments name them.
        used: the layouts that DTensor converted these to; empty where it converted none.
        order: where it moves dimensions, which dimension of the input each of the result is.
    """

    ins: tuple[Tensor, ...]
    outs: tuple[Tensor, ...]
    operator: str
    module: str
    operands: tuple[Tensor, ...] = ()
    used: tuple[Layout, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def back(self) -> tuple[int, ...]:
        """The order of the way back."""
        return tuple(self.order.index(dim) for dim in range(len(self.order)))


@dataclass(frozen=True, slots=True)
class Wrapped:
    """`DTensor.from_local`: the declared layout is the claim."""

    source: Tensor
    out: Tensor


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """`to_local`.

    Attributes:
        source: the DTensor.
        out: the plain tensor.
        grad: the layout that the gradient is said to have, by default the forward one.
        tree: where the gradient is summed in a fixed order, how.
    """

    source: Tensor
    out: Tensor
    grad: Layout | None = None
    tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class Converted:
    """`redistribute`."""

    source: Tensor
    out: Tensor
    module: str
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Shared:
    """The whole input that invariant linear layers share: its gradient is summed once, in a tree."""

    source: Tensor
    out: Tensor
    tree: Tree
    module: str
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Called:
    """A repeated layer: its frame, and which tensors here are which of its own."""

    frame: Frame
    ins: tuple[tuple[Tensor, Tensor], ...]
    outs: tuple[tuple[Tensor, Tensor], ...]
    module: str


Step: TypeAlias = Computed | Wrapped | Unwrapped | Converted | Shared | Called


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as one module uses it."""

    name: str
    tensor: Tensor


@dataclass(slots=True)
class Boundary:
    """The tensors at a module's edge, as they are outside of it; `None` for what is no tensor."""

    ins: tuple[Tensor | None, ...] = ()
    keywords: tuple[tuple[str, Tensor | None], ...] = ()
    outs: tuple[Tensor | None, ...] = ()


@dataclass(slots=True)
class Trail:
    """All that a walk over one list of events found."""

    steps: list[Step] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    boundaries: dict[str, Boundary] = field(default_factory=dict)


def collective(source: Layout, target: Layout) -> Collective | None:
    """The collective of a conversion, as `redistribute_local_tensor` runs it; `None` where no data moves."""
    match source, target:
        case Partial(), Replicate():
            return "all_reduce"
        case Partial(), Shard():
            return "reduce_scatter"
        case Shard(), Replicate():
            return "all_gather"
        case Shard(a), Shard(b) if a != b:
            return "all_to_all"
        case _:
            return None


def tree_moves(shape: tuple[int, ...], tree: Tree, module: str, cause: Cause | None, target: Layout) -> list[Move]:
    """The collectives of a sum in a fixed order; to a `Shard` the first alone."""
    part = target if isinstance(target, Shard) else Shard(0)
    moves = [Move("all_to_all", shape, True, Partial(), module, cause, target=part, tree=tree)]
    if not isinstance(target, Shard):
        moves.append(Move("all_gather", shape, True, part, module, cause, target=target, tree=tree))
    return moves
