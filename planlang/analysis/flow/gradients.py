"""What the backward walk finds out, and the one rule that it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.state import REPLICATE, Gradient, Tensor
from planlang.analysis.flow.tape import Called, Move, Parameter
from planlang.layout import Layout, Partial, Replicate, Shard


@dataclass(frozen=True, slots=True)
class Split:
    """Where a whole tensor meets cut ones, so that each rank gets only a term of its gradient."""

    tensor: Tensor
    operator: str
    module: str
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Wrong:
    """A gradient that is wrong.

    Attributes:
        kind: `incomplete` (each rank has a term), `doubled` (summed though it was whole), `differs` (contributions that
            do not add up), `claim` (converted though it is not what it claims to be).
        parameter: whose; `None` for an activation's.
        tensor: the tensor.
        got: what arrived.
        split: where it became so.
        module: where it was noticed.
    """

    kind: str
    parameter: Parameter | None
    tensor: Tensor
    got: Gradient
    split: Split | None
    module: str
    cause: Cause | None = None


@dataclass(slots=True)
class Backward:
    """What a backward walk found.

    Attributes:
        ends: the gradient of every tensor of the frame that got one, by its number.
        wrong: what is wrong with gradients.
        moves: the collectives.
        unknown: the parameters whose gradient is not known.
        trusted: whether a gradient that is not known was taken for what a rule declares, to go on behind it.
    """

    ends: dict[int, Gradient] = field(default_factory=dict)
    splits: dict[int, Split] = field(default_factory=dict)
    wrong: list[Wrong] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    unknown: list[Parameter] = field(default_factory=list)
    trusted: bool = False
    called: list[tuple[Called, Backward]] = field(default_factory=list)


def pull(z: Layout | None, x: Layout | None, g: Layout | None) -> Layout | None:
    """The layout of an input's gradient: `z` the result's layout, `x` the input's, `g` that of the result's gradient.

    Returns:
        `None` where it is none: the ranks' gradients are then no parts or terms of the true one.
    """
    match z, x, g:
        case Replicate(), Replicate(), Replicate() | Partial():
            return g
        case Replicate(), Partial(), Replicate():
            return g
        case Replicate(), Shard(), Replicate():
            return x
        case Shard(a), Shard(), Shard(b) if a == b:
            return x
        case Shard(a), Replicate(), Shard(b) if a == b:
            return Partial()
        case Shard(a), Partial(), Shard(b) if a == b:
            return REPLICATE
        case Partial(), Partial(), Replicate() | Partial():
            return g
        case Partial(), Replicate(), Replicate():
            return Partial()
        case Partial(), Shard(), Replicate():
            return x
        case _:
            return None
