"""Scores of all sequences: unsharded, or under a plan on ranks that are simulated in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import planlang
from benchmarks.reward_model.model import rewards
from planlang.runtime.simulate import local
from planlang.runtime.simulate.run import whole


def unsharded(model: nn.Module, sequences: Tensor, micro_batch: int) -> Tensor:
    """The scores of sequences, [sequences, LENGTH] to [sequences], by the model as it is."""
    with torch.no_grad():
        return torch.cat([rewards(model, part) for part in torch.split(sequences, micro_batch)])


def on_ranks(
    model: nn.Module, plan: str | os.PathLike[str], tp: int, sequences: Tensor, micro_batch: int
) -> list[Tensor]:
    """The scores of sequences as each of `tp` ranks has them, [sequences] each.

    Args:
        model: is made parallel.
        plan: what `planlang.parallelize` takes.
        tp: ranks.
        sequences: tokens, [sequences, LENGTH].
        micro_batch: sequences at once.
    """
    with simulated(tp) as mesh, torch.no_grad():
        local.spread(model, tp)
        planlang.parallelize(model, mesh, plan)
        parts = [whole(rewards(model, local.copies(part, tp))) for part in torch.split(sequences, micro_batch)]
        by_part = [local.of_each_rank(part, tp) for part in parts]
    return [torch.cat(own) for own in zip(*by_part, strict=True)]


@contextmanager
def simulated(tp: int) -> Iterator[DeviceMesh]:
    """Inside, `tp` ranks run at once; the mesh that it yields has the axis of the plans.

    DTensor remembers what it did by mesh, so no process with a mesh of real ranks may come here (see `local`).
    """
    with local.ranks(tp):
        yield init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",))


def same_bits(one: Tensor, other: Tensor) -> Tensor:
    """Where two tensors of one type and shape have the same bits."""
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[one.element_size()]
    return one.view(bits) == other.view(bits)
