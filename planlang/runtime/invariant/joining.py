"""Blocks of a tensor that a module computes one by one: cut apart, and joined again.

A kernel may go through numbers in another way where there are gaps between them in memory. So a block has none, whether
it is cut out of a rank's part or is all of it, and neither has the gradient that comes back to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def cut(x: Tensor, blocks: int, dim: int) -> list[Tensor]:
    """The blocks of a tensor along a dimension that they divide."""
    return [block.contiguous() for block in x.chunk(blocks, dim)]


def joined(blocks: Sequence[Tensor], dim: int) -> Tensor:
    """The blocks one behind the other along a dimension."""
    made: Tensor = _Joined.apply(dim, *blocks)  # type: ignore[no-untyped-call]
    return made


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dim: int, *blocks: Tensor) -> Tensor:
        ctx.dim, ctx.blocks = dim, len(blocks)
        return blocks[0].view_as(blocks[0]) if len(blocks) == 1 else torch.cat(blocks, dim)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *cut(gradient, ctx.blocks, ctx.dim)
