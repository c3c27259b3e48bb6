"""How far a gradient is off on the ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from planlang.runtime.simulate.outcome import WrongGradient
from planlang.runtime.simulate.truth import FLOOR, error, factor, flaw


def judged(
    name: str, copies: Sequence[Tensor] | None, right: Tensor | None, scale: float, tolerance: float
) -> WrongGradient:
    """A parameter's gradient, on the rank where it is farthest off.

    Args:
        name: the parameter.
        copies: each rank's gradient, whole; `None` where there is none.
        right: the true one; `None` where the loss does not depend on it.
        scale: the largest element of all true gradients.
        tolerance: what is rounding.
    """
    if copies is None or right is None:
        none = copies is None and (right is None or not right.any())
        note = "" if none else "no value" if copies is None else "a value, and should not"
        return WrongGradient(name=name, error=0.0 if none else float("inf"), note=note)
    floor = FLOOR * scale
    apart = max(error(copy, right, floor) for copy in copies)
    spread, adds_up = 0.0, False
    if same(copies):
        together = torch.stack(list(copies))
        largest = max(float(right.abs().max()), floor, 1e-300)
        spread = float((together - together[0]).abs().max()) / largest
        adds_up = len(copies) > 1 and apart > tolerance and error(together.sum(0), right, floor) <= tolerance
    return WrongGradient(
        name=name,
        error=apart,
        spread=spread,
        factor=factor(copies[0], right),
        adds_up=adds_up,
        note=flaw(copies, right) if apart == float("inf") else "",
    )


def same(tensors: Sequence[Tensor]) -> bool:
    """Whether all have one shape."""
    return len({tensor.shape for tensor in tensors}) == 1
