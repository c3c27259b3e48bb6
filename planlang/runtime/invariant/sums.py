"""Sums in one fixed order: a binary tree over blocks, first over a rank's own, then over the ranks.

With a power of two of blocks, and as many on each rank, a rank's own blocks are a whole subtree: where the tree is cut
into ranks changes nothing about what is added to what.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import DeviceMesh


def tree_sum(terms: Iterable[Tensor], dtype: torch.dtype | None = None) -> Tensor:
    """Adds terms of one shape in the order of a binary tree: ``((a + b) + (c + d)) + ...``.

    Terms are consumed as they come and overwritten, so that of `n` terms at most ``log2(n) + 1`` are there at once.

    Args:
        terms: at least one; freshly made, for they are written to.
        dtype: what to add in; by default the terms' own type. Each sum is rounded to it.
    """
    waiting: list[tuple[int, Tensor]] = []  # sums of 2^level terms, the largest first
    for term in terms:
        level, total = 0, term if dtype is None else term.to(dtype)
        while waiting and waiting[-1][0] == level:
            total = waiting.pop()[1].add_(total)
            level += 1
        waiting.append((level, total))
        del term, total  # or the next would be made while they are there
    total = waiting.pop()[1]
    while waiting:
        total = waiting.pop()[1].add_(total)
    return total


def tree_all_reduce(term: Tensor, mesh: DeviceMesh) -> Tensor:
    """The sum of all ranks' terms, whole on every rank.

    Each rank adds one chunk of all terms, and the sums are gathered: the bytes of a ring all-reduce, in an order that
    depends neither on the library nor on the number of ranks.

    Args:
        term: of one shape on every rank; it may be overwritten.
        mesh: of one dimension.
    """
    ranks = mesh.size()
    if ranks == 1:
        return term
    numbers = term.numel()
    flat = term.reshape(-1)
    if numbers % ranks:
        flat = torch.nn.functional.pad(flat, (0, -numbers % ranks))
    whole = collectives.all_gather_single(_chunk(flat.view(ranks, -1), mesh), 0, mesh)
    return _arrived(whole)[:numbers].view(term.shape)


def tree_reduce_scatter(term: Tensor, dim: int, mesh: DeviceMesh) -> Tensor:
    """A rank's part along `dim` of the sum of all ranks' terms.

    Args:
        term: of one shape on every rank.
        dim: of a length that the ranks divide.
        mesh: of one dimension.
    """
    ranks = mesh.size()
    if ranks == 1:
        return term
    return _chunk(torch.stack(term.chunk(ranks, dim)), mesh)


def all_gather(part: Tensor, dim: int, mesh: DeviceMesh) -> Tensor:
    """All ranks' parts, one behind the other along `dim`."""
    if mesh.size() == 1:
        return part
    whole = _arrived(collectives.all_gather_single(part.contiguous(), 0, mesh))
    return whole if dim == 0 else torch.cat(whole.chunk(mesh.size(), 0), dim)


def _chunk(chunks: Tensor, mesh: DeviceMesh) -> Tensor:
    """This rank's chunk of the sum: `chunks` holds, for each rank, the chunk of the term that it adds."""
    shape = chunks.shape
    received = _arrived(collectives.all_to_all_single(chunks.flatten(0, 1), None, None, mesh))
    return tree_sum(received.view(shape).unbind(0)).clone()  # a view would keep all that was received


def _arrived(tensor: Tensor) -> Tensor:
    """The plain tensor, once its collective has ended."""
    if isinstance(tensor, collectives.AsyncCollectiveTensor):
        return tensor.wait()
    return tensor
