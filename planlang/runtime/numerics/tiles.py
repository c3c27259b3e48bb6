"""Matrix products in tiles of one size, so that no number depends on how wide or high the whole product is.

A kernel may add the same terms in another order when a matrix has another width. Here each tile of the result is a
product of its own, of `SIDE` rows with `SIDE` columns, both copied to fresh memory and filled up with zeros: a slice of
a product is the product of the slice, to the last bit. The dimension that is summed over is never cut.
"""

from __future__ import annotations

import torch
from torch import Tensor

SIDE = 64  # a multiple of every kernel's vectors, so that no column is computed as a remainder


def product(left: Tensor, right: Tensor, bias: Tensor | None = None, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`alpha * left @ right + beta * bias`.

    Args:
        left: [rows, inner].
        right: [inner, columns].
        bias: something that can be broadcast to [rows, columns].
        beta: what the bias is taken times.
        alpha: what the product is taken times.

    Returns:
        [rows, columns].
    """
    rows, columns = left.shape[0], right.shape[1]
    lefts, rights = _stacked(left), _stacked(right.t())
    down, across = len(lefts), len(rights)
    made = left.new_empty(down, across, SIDE, SIDE)
    biases = None if bias is None else _tiled(bias.expand(rows, columns))
    for i in range(down):
        for j in range(across):
            if biases is None:
                torch.mm(lefts[i], rights[j].t(), out=made[i, j])
            else:
                torch.addmm(biases[i, j], lefts[i], rights[j].t(), beta=beta, alpha=alpha, out=made[i, j])
    return made.transpose(1, 2).reshape(down * SIDE, across * SIDE)[:rows, :columns].contiguous()


def steady(dtype: torch.dtype, inner: int) -> bool:
    """Whether a number in a tile depends on nothing but its own row and column, as `product` takes for granted.

    Args:
        dtype: of the matrices.
        inner: how many terms are summed up for each number.
    """
    source = torch.Generator().manual_seed(0)
    left, right = (torch.randn(SIDE, inner, generator=source, dtype=torch.float64).to(dtype) for _ in range(2))
    whole = torch.mm(left, right.t())
    turned = torch.mm(left.roll(5, 0), right.roll(9, 0).t()).roll((-5, -9), (0, 1))
    alone = torch.mm(_first(left), _first(right).t())
    return torch.equal(whole, turned) and torch.equal(whole[0, 0], alone[0, 0])


def _first(matrix: Tensor) -> Tensor:
    """The matrix with nothing but zeros below its first row."""
    made = torch.zeros_like(matrix)
    made[0] = matrix[0]
    return made


def _stacked(matrix: Tensor) -> Tensor:
    """[rows, inner] as [tiles, SIDE, inner], in fresh memory, zeros after the last row."""
    rows, inner = matrix.shape
    made = matrix.new_zeros(-(-rows // SIDE) * SIDE, inner)
    made[:rows] = matrix
    return made.view(-1, SIDE, inner)


def _tiled(matrix: Tensor) -> Tensor:
    """[rows, columns] as [tiles, tiles, SIDE, SIDE], zeros where there is nothing."""
    rows, columns = matrix.shape
    down, across = -(-rows // SIDE), -(-columns // SIDE)
    made = matrix.new_zeros(down * SIDE, across * SIDE)
    made[:rows, :columns] = matrix
    return made.view(down, SIDE, across, SIDE).transpose(1, 2).contiguous()
