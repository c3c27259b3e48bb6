"""How far rounding alone moves a model: the same products, summed in another order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from planlang.runtime.simulate.truth import FLOOR, Inputs, Truth, error, stepped, truth

MARGIN = 16.0  # a plan may round in several places where the reordered model rounds in one
LEAST = 1e-13
MOST = 1e-6  # what moves a model more is no rounding in float64: it draws random numbers, or chooses what nearly ties


def tolerance(
    make_model: Callable[[], nn.Module],
    inputs: Inputs,
    right: Truth,
    parts: int,
    micro_batches: int = 1,
    step: bool = False,
) -> float:
    """Errors up to this are rounding: a margin over what another order of the same sums changes.

    Args:
        make_model: makes the model, the same at every call.
        inputs: what it is called with.
        right: what `truth` found for both.
        parts: in how many parts, from the last to the first, each linear layer sums its products.
        micro_batches: as for `truth`.
        step: whether the weights after a step of the optimizer are compared too.

    Returns:
        The largest relative difference of logits, gradients and weights, with gradients below `FLOOR` of the largest
        taken as that large, times `MARGIN`.
    """
    other = truth(lambda: _reordered(make_model(), parts), inputs, micro_batches)
    worst = error(other.logits, right.logits)
    floor = FLOOR * right.scale
    for name, gradient in right.gradients.items():
        again = other.gradients[name]
        if gradient is not None and again is not None:
            worst = max(worst, error(again, gradient, floor))
    if step:
        moved = stepped(other)
        worst = max(worst, *(error(moved[name], weight) for name, weight in stepped(right).items()))
    return max(MARGIN * worst, LEAST)


def _reordered(model: nn.Module, parts: int) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.forward = partial(_linear, module, parts)  # type: ignore[method-assign]
    return model


def _linear(module: nn.Linear, parts: int, x: Tensor) -> Tensor:
    pairs = zip(x.tensor_split(parts, -1), module.weight.tensor_split(parts, -1), strict=True)
    terms = [nn.functional.linear(each, weight) for each, weight in pairs]
    total = terms.pop()
    while terms:
        total = total + terms.pop()
    return total if module.bias is None else total + module.bias
