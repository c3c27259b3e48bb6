"""One layer, forward and backward, as one of the ranks computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchmarks.invariant.models import Styles, Widths

TOKENS = (1, 512)
DEGREES = (1, 4)


@contextmanager
def one_of(tp: int) -> Iterator[DeviceMesh]:
    """The mesh as the first of `tp` ranks sees it; the others are not there."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=tp, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",))
    finally:
        dist.destroy_process_group()


def one_layer(
    widths: Widths, dtype: torch.dtype, mesh: DeviceMesh, styles: Callable[[nn.Module, int], Styles]
) -> Callable[[], None]:
    """Forward and backward of one layer under styles; forward alone where gradients are off."""
    model: Any = widths.build(dtype)
    layer, rotary = model.model.layers[0], model.model.rotary_emb
    for name, style in styles(layer, widths.blocks).items():
        parallelize_module(layer.get_submodule(name), mesh, style)
    x = torch.randn((*TOKENS, widths.hidden)).to(dtype).requires_grad_()
    angles = rotary(x.detach(), torch.arange(TOKENS[1]).unsqueeze(0))

    def run() -> None:
        y = layer(x, position_embeddings=angles)
        y = y[0] if isinstance(y, tuple) else y
        if torch.is_grad_enabled():
            y.backward(torch.ones_like(y))
        layer.zero_grad()
        x.grad = None

    return run
