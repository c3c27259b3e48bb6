"""The norm of all gradients, and clipping by it, with the same bits on any number of ranks.

`torch.nn.utils.clip_grad_norm_` adds squares over a rank's part and then across ranks, in an order that depends on how
many there are, and refuses plain gradients beside DTensors. Here squares are added block by block, and the sums of all
blocks are gathered and added in one order.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate, Shard

from planlang.runtime.invariant import settings as settled
from planlang.runtime.invariant.settings import Settings
from planlang.runtime.invariant.sums import all_gather


@torch.no_grad()
def clip_grad_norm_(model: nn.Module, max_norm: float) -> Tensor:
    """As `planlang.clip_grad_norm_`."""
    gradients = list(_gradients(model))
    if not gradients:
        return torch.zeros(())
    squares = [_square(gradient, settings) for gradient, settings in gradients]
    norm = torch.stack(squares).sum().sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient, _ in gradients:
        settled.local(gradient).mul_(factor.to(gradient.device))
    return norm


def _gradients(model: nn.Module) -> Iterator[tuple[Tensor, Settings | None]]:
    """Every gradient once, with the invariant style of the first module that has its parameter."""
    seen: set[int] = set()
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is None or parameter.grad is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            yield parameter.grad, settled.found_in(module)


def _square(gradient: Tensor, settings: Settings | None) -> Tensor:
    """The sum of a whole gradient's squares, in float32 or wider."""
    if not isinstance(gradient, DTensor):
        return _sum(gradient)
    part = None if settings is None else _cut(gradient, settings)
    if part is None or settings is None:
        return _sum(gradient.full_tensor())
    own, dim = part
    blocks = torch.stack([_sum(block) for block in own.chunk(settings.own, dim)])
    return all_gather(blocks, 0, settings.mesh).sum()


def _cut(gradient: DTensor, settings: Settings) -> tuple[Tensor, int] | None:
    """A rank's part on the style's axis, whole on every other, and the dimension that is cut; `None` if none is."""
    names = gradient.device_mesh.mesh_dim_names or ("",)
    axis = (settings.mesh.mesh_dim_names or ("",))[0]
    if axis not in names:
        return None
    placement = gradient.placements[names.index(axis)]
    if not isinstance(placement, Shard):
        return None
    wanted = [placement if name == axis else Replicate() for name in names]
    return gradient.redistribute(placements=wanted).to_local(), placement.dim


def _sum(tensor: Tensor) -> Tensor:
    """The sum of squares of the numbers of a tensor, which lie side by side: strides choose kernels too."""
    dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    norm: Tensor = torch.linalg.vector_norm(tensor.contiguous(), dtype=dtype)
    return norm.square()
