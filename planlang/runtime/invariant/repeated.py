"""A module with whole parameters over an input that is split, such as `q_norm` over a rank's heads: block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard

from planlang.runtime.invariant import settings as kept
from planlang.runtime.invariant.joining import cut, joined
from planlang.runtime.invariant.settings import Settings
from planlang.runtime.invariant.sums import tree_all_reduce, tree_sum


def repeated(module: nn.Module, x: Tensor, own: Callable[[Tensor], Tensor]) -> Tensor:
    """The forward of such a module: its own code on each block, with a copy of the parameters for each.

    A parameter's gradient is the sum over all blocks, in their tree.

    Args:
        module: with replicated parameters of its own and none below.
        x: split along the style's dimension, which a rank's blocks divide.
        own: the forward of the module's class, bound to the module.
    """
    settings = kept.of(module)
    assert isinstance(settings.arrives, Shard)
    x = kept.arrived(x, settings, settings.arrives)
    dim = settings.arrives.dim % x.ndim
    if x.shape[dim] % settings.own:
        raise ValueError(f"{settings.own} blocks on a rank do not divide dimension {dim} of {x.shape[dim]}")
    held = dict(module._parameters)
    copies = {
        name: _Copies.apply(kept.local(each), settings).unbind(0)  # type: ignore[no-untyped-call]
        for name, each in held.items()
        if each is not None
    }
    outs: list[Tensor] = []
    try:
        for number, block in enumerate(cut(x, settings.own, dim)):
            module._parameters.update({name: each[number] for name, each in copies.items()})
            outs.append(own(block))
    finally:
        module._parameters.update(held)
    y = joined(outs, dim)
    return y if settings.local else DTensor.from_local(y, settings.mesh, [settings.arrives], run_check=False)


class _Copies(torch.autograd.Function):
    """A parameter once for each of a rank's blocks: [blocks, ...]."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, settings: Settings) -> Tensor:
        ctx.settings = settings
        return parameter.expand(settings.own, *parameter.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        settings: Settings = ctx.settings
        total = tree_sum((each.clone() for each in gradient.unbind(0)), settings.dtype)
        return tree_all_reduce(total, settings.mesh).to(gradient.dtype), None
