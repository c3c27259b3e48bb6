"""The first module whose output is not that of the unsharded model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from planlang.plan.styles import Style
from planlang.runtime.simulate import simulate
from planlang.runtime.simulate.local import of_each_rank
from planlang.runtime.simulate.run import whole
from planlang.runtime.simulate.truth import Inputs, Truth, error, factor


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where the values part.

    Attributes:
        module: the module, by its name in the twin.
        error: the largest difference, relative to the largest element; infinite where the shapes do not fit.
        factor: what the right output must be multiplied by to come closest to rank 0's.
        bias: how many times too often the module's own bias is in rank 0's; 0 where that is not all that is wrong.
    """

    module: str
    error: float
    factor: float
    bias: int = 0


@dataclass(slots=True)
class Outputs:
    """The first tensor that each module returned, on each rank, in the order in which the modules ended."""

    ranks: int = 1
    found: dict[str, list[Tensor]] = field(default_factory=dict)

    def hang(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            module.register_forward_hook(self._keep(name))

    def _keep(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: object, output: Any) -> None:
            tensor = next((each for each in tree_leaves(output) if isinstance(each, Tensor)), None)
            if tensor is not None and tensor.is_floating_point() and name not in self.found:
                self.found[name] = of_each_rank(whole(tensor.detach()), self.ranks)

        return hook


def first_divergence(
    make_model: Callable[[], nn.Module],
    styles: Mapping[str, Style],
    ranks: int,
    inputs: Inputs,
    right: Truth,
    tolerance: float,
) -> Divergence | None:
    """The first module whose output differs by more than rounding, in the order in which modules end.

    A plain tensor of which each rank has a part is put together along the dimension that is too short.

    Args:
        make_model: makes the model, the same at every call.
        styles: as for `simulate`.
        ranks: their number.
        inputs: what the model is called with.
        right: what `truth` found.
        tolerance: what is rounding.
    """
    single, split = Outputs(), Outputs(ranks)
    model = make_model()
    single.hang(model)
    with torch.no_grad():
        model(**inputs)
    simulate(make_model, styles, ranks, inputs, right=right, watch=split.hang)
    for name, (expected,) in single.found.items():
        if name not in split.found:  # it never came so far
            return None
        got = joined(split.found[name], expected)
        apart = max(error(each, expected) for each in got)
        if apart > tolerance:
            bias = getattr(model.get_submodule(name), "bias", None)
            return Divergence(name, apart, factor(got[0], expected), _times(bias, got[0], expected, tolerance))
    return None


def _times(bias: object, got: Tensor, expected: Tensor, tolerance: float) -> int:
    """How many times a bias was added too often, where that explains the difference."""
    if not isinstance(bias, Tensor) or got.shape != expected.shape or bias.shape != got.shape[-1:]:
        return 0
    extra = bias.detach().expand_as(expected)
    times = round(factor(got - expected, extra))
    return times if times and error(expected + times * extra, got) <= tolerance else 0


def joined(parts: list[Tensor], expected: Tensor) -> list[Tensor]:
    """The parts put together where they are parts of what is expected; else as they are."""
    if parts[0].shape == expected.shape or parts[0].ndim != expected.ndim:
        return parts
    short = [dim for dim in range(expected.ndim) if parts[0].shape[dim] != expected.shape[dim]]
    if len(short) == 1 and sum(part.shape[short[0]] for part in parts) == expected.shape[short[0]]:
        return [torch.cat(parts, short[0])]
    return parts
