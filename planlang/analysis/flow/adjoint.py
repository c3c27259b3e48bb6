"""The backward pass of one operator: where the gradients of its inputs lie.

`pull` serves every operator that runs on what it is given. The rest is about DTensors whose gradient does not lie as
their operator's result does: autograd runs the derivative on DTensors as they are, on the gradient and on the inputs as
they were before the forward pass converted them. Where these do not fit together DTensor converts anew (`choice.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planlang.analysis.flow import choice
from planlang.analysis.flow.operators import views
from planlang.analysis.flow.state import REPLICATE, Tensor, for_gradient
from planlang.analysis.flow.tape import Computed
from planlang.layout import Layout, Partial, Replicate, Shard

_PASSED_ON = choice.ADDITIVE | choice.LINEAR | {"clone", "dropout"}
_OF_INPUT = frozenset({"pow", "square", "log", "sin", "cos", "abs"})  # times a function of the input
_OF_RESULT = frozenset({"rsqrt", "sqrt", "exp", "reciprocal"})  # times a function of the result
# Derivatives in one kernel, of which torch does not know that they are linear in the gradient.
_FUSED = {"silu": "in", "gelu": "in", "relu": "out", "sigmoid": "out", "tanh": "out", "softmax": "out"}


@dataclass(frozen=True, slots=True)
class Conversion:
    """A tensor that is converted; `certain` says whether the rule for it is known."""

    tensor: Tensor
    source: Layout
    target: Layout
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """The gradient of one input: how it lies, and what was converted to compute it."""

    tensor: Tensor
    layout: Layout
    conversions: tuple[Conversion, ...] = ()


def usual(step: Computed, out: Tensor, gradient: Layout) -> bool:
    """Whether nothing was converted and the gradient lies as the result does, or whole where that is partial."""
    fits = not step.used or step.used == tuple(each.claim or REPLICATE for each in step.operands)
    return fits and gradient == for_gradient(out.claim or REPLICATE)


def parts(step: Computed, out: Tensor, gradient: Layout, ranks: int) -> Iterator[Part]:
    """The gradients of an operator's inputs.

    Args:
        step: the operator; all its tensors are what they claim to be.
        out: the result that the gradient is of.
        gradient: how that lies.
        ranks: the size of the mesh axis.
    """
    name = step.operator.rpartition(".")[2].strip("_")
    if name == "linear":
        yield from _linear(step, out, gradient, ranks)
        return
    for x in step.ins:
        part = _part(name, step, x, out, gradient, ranks)
        yield part or _guessed(x, out, gradient)


def _part(name: str, step: Computed, x: Tensor, out: Tensor, gradient: Layout, ranks: int) -> Part | None:
    """One input's gradient; `None` where no rule is known."""
    if name in _PASSED_ON:
        return Part(x, _summed(gradient, out, x))
    if name in choice.PRODUCTS | choice.QUOTIENTS:
        other = next((each for each in step.operands if each is not x), None)
        if other is None:
            return Part(x, gradient)
        if name in choice.QUOTIENTS and x is not step.operands[0]:
            return None
        return _times(name, x, out, gradient, other, ranks)
    if name in _OF_INPUT | _OF_RESULT:
        return _times("mul", x, out, gradient, x if name in _OF_INPUT else out, ranks)
    if name in _FUSED:
        return _times("", x, out, gradient, x if _FUSED[name] == "in" else out, ranks)
    if name == "getitem" and x.shape == out.shape:  # a slice of everything
        return Part(x, gradient)
    if name in views.RULES or name in ("mean", "sum"):
        return Part(x, gradient) if not isinstance(gradient, Shard) else None
    return None


def _times(name: str, x: Tensor, out: Tensor, gradient: Layout, other: Tensor, ranks: int) -> Part:
    """The gradient times another tensor."""
    have = (gradient, other.claim or REPLICATE)
    row = choice.pointwise(name, have, (out.shape, other.shape), ranks)
    moved = zip((out, other), have, row.ins, strict=True)
    return Part(x, _summed(row.out, out, x), tuple(Conversion(*each) for each in moved))


def _summed(layout: Layout, out: Tensor, x: Tensor) -> Layout:
    """The layout of a gradient after it is summed over the dimensions along which the input was broadcast."""
    if not isinstance(layout, Shard):
        return layout
    own = layout.dim - len(out.shape) + len(x.shape)
    return Shard(own) if own >= 0 and x.shape[own] == out.shape[layout.dim] else Partial()


def _linear(step: Computed, out: Tensor, gradient: Layout, ranks: int) -> Iterator[Part]:
    x, weight, *bias = step.operands
    of_x, of_w = x.claim or REPLICATE, weight.claim or REPLICATE
    if x.grad:
        turned = Shard(1 - of_w.dim) if isinstance(of_w, Shard) else of_w
        row = choice.linear(gradient, turned, out.shape, weight.shape[::-1], ranks)
        back = row.ins[1]
        wanted = Shard(1 - back.dim) if isinstance(back, Shard) else back
        yield Part(x, row.out, (Conversion(out, gradient, row.ins[0]), Conversion(weight, of_w, wanted)))
    if weight.grad:
        row = choice.weight_gradient(gradient, of_x, out.shape, x.shape, ranks)
        yield Part(weight, row.out, (Conversion(out, gradient, row.ins[0]), Conversion(x, of_x, row.ins[1])))
    last = len(out.shape) - 1
    for each in bias:
        layout = (Shard(0) if gradient.dim == last else Partial()) if isinstance(gradient, Shard) else gradient
        yield Part(each, layout)


def _guessed(x: Tensor, out: Tensor, gradient: Layout) -> Part:
    """The gradient is converted to lie as the result does; whether torch does just that is not known."""
    target = for_gradient(out.claim or REPLICATE)
    layout: Layout = REPLICATE
    if isinstance(target, Shard):
        layout = x.claim if isinstance(x.claim, Shard) else Partial()
    return Part(x, layout, (Conversion(out, gradient, target, certain=False),))


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
