"""Blocks of a tensor that a module computes one by one: cut apart, and joined again.

A kernel may go through numbers in another way where there are gaps between them in memory. So a block has none, whether
it is cut out of a rank's part or is all of it, and neither has the gradient that comes back to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

_LINE = 64  # bytes: a cache line, a vector of the widest units, a row of a tile; memory of a tensor begins at one


def operands(x: Tensor, blocks: int, dim: int) -> Iterator[Tensor]:
    """The blocks of a tensor along a dimension that they divide, as they are or copied.

    They are slices of it where each begins at a whole line, and copies where not: there a kernel may go another way
    than with a block that is all of a rank's part (measured: bfloat16, gradients of 3 tokens by 18 columns).

    Args:
        x: for products [rows, columns].
        blocks: how many.
        dim: from 0.
    """
    for part in x.chunk(blocks, dim):
        yield part if _lined_up(part, dim) else part.clone(memory_format=torch.contiguous_format)


def write(out: Tensor, blocks: int, dim: int, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Writes the product of two matrices into each block of a matrix.

    Where blocks do not begin at whole lines, products are made apart (measured: float32, one token by 54 columns).
    """
    for part, (one, other) in zip(out.chunk(blocks, dim), pairs, strict=True):
        if _lined_up(part, dim):
            torch.mm(one, other, out=part)
        else:
            part.copy_(torch.mm(one, other))


def _lined_up(block: Tensor, dim: int) -> bool:
    """Whether all blocks of this shape begin at whole lines; it depends on the shape alone, not on the ranks."""
    return block.shape[dim:].numel() * block.element_size() % _LINE == 0


def cut(x: Tensor, blocks: int, dim: int) -> list[Tensor]:
    """The same blocks, each without gaps."""
    return [block.contiguous() for block in operands(x, blocks, dim)]


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
