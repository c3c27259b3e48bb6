"""Embeddings: a lookup adds nothing up, so its bits do not depend on the ranks; its gradient needs care."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial

from planlang.runtime.invariant import settings as kept
from planlang.runtime.invariant.settings import LAST, REPLICATE


def features(module: nn.Embedding, ids: Tensor) -> Tensor:
    """The forward of an embedding whose features are split: each rank looks up its part of every row.

    Args:
        module: with a weight `Shard(1)`.
        ids: numbers of any shape, the same on every rank.
    """
    settings = kept.of(module)
    ids = kept.arrived(ids, settings, REPLICATE)
    weight = kept.local(module.weight)
    y = _Lookup.apply(ids, weight, 0, _padding(module))  # type: ignore[no-untyped-call]
    return kept.left(y, settings, LAST)


def vocabulary(module: nn.Embedding, ids: Tensor) -> Tensor:
    """The forward of an embedding whose rows are split: each rank looks up the ids that it has the rows of.

    What a rank has not is -0.0, to which any number can be added without a change, so the order of the sum across ranks
    does not matter (0.0 would turn -0.0 into 0.0).

    Args:
        module: with a weight `Shard(0)`.
        ids: numbers of any shape, the same on every rank.
    """
    settings = kept.of(module)
    ids = kept.arrived(ids, settings, REPLICATE)
    weight = kept.local(module.weight)
    y = _Lookup.apply(ids, weight, _first(module), _padding(module))  # type: ignore[no-untyped-call]
    if settings.mesh.size() == 1:
        return kept.left(y, settings, REPLICATE)
    whole = DTensor.from_local(y, settings.mesh, [Partial()], run_check=False)
    whole = whole.redistribute(placements=[settings.leaves])
    return whole.to_local() if settings.local else whole


def _first(module: nn.Embedding) -> Tensor | int:
    """The number of a rank's first row."""
    mesh = kept.of(module).mesh
    if mesh.size() == 1:
        return 0
    return kept.local(module.weight).shape[0] * mesh.get_local_rank()


def _padding(module: nn.Embedding) -> int:
    return -1 if module.padding_idx is None else module.padding_idx


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor, first: Any, padding: int) -> Tensor:
        rows = weight.shape[0]
        own = ids - first
        missing = (own < 0) | (own >= rows)
        ctx.rows = rows
        # What has no gradient here is looked up in one row more, which is cut off again.
        ctx.save_for_backward(torch.where(missing | (ids == padding), rows, own))
        y = torch.nn.functional.embedding(own.clamp(0, rows - 1), weight)
        return y.masked_fill_(missing.unsqueeze(-1), -0.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None, None]:
        (own,) = ctx.saved_tensors
        made = torch.ops.aten.embedding_dense_backward(gradient, own, ctx.rows + 1, ctx.rows, False)
        return None, made[: ctx.rows], None, None
