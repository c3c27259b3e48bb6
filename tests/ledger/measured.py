"""The collectives that really run: torch's `CommDebugMode` under a process group of ranks that do not exist."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from planlang.analysis.cost.ledger import Ledger, Phase

# For each kind and size in bytes of what a rank puts in, how many there are.
Tally: TypeAlias = Counter[tuple[str, int]]
_KINDS = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "shard_dim_alltoall": "all_to_all",
    "all_to_all_single": "all_to_all",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What ran, and the parameters whose gradient was left partial."""

    forward: Tally
    backward: Tally
    partial: tuple[str, ...]


class Sized(CommDebugMode):
    """`CommDebugMode`, which counts, and beside its counts the bytes of what goes in."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tally: Tally = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = self.get_total_counts()
        out = super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        if out is not NotImplemented and self.get_total_counts() != before:
            self.tally[_KINDS[func._overloadpacket.__name__], args[0].numel() * args[0].element_size()] += 1
        return out


def mesh_of(tp: int) -> DeviceMesh:
    """A mesh of `tp` ranks that do not exist, of which this process is the first."""
    if dist.is_initialized() and dist.get_world_size() != tp:
        dist.destroy_process_group()
    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=tp)
    return init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",))


def measure(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    mesh: DeviceMesh,
    parallelize: Callable[[nn.Module, DeviceMesh], object],
) -> Measured:
    """Runs a model forward and backward, each under a `CommDebugMode` of its own.

    Args:
        model: the model, not parallel yet.
        inputs: keyword arguments of its forward.
        mesh: of `mesh_of`, which is to be called outside any mode that makes tensors fake.
        parallelize: makes the model parallel.
    """
    parallelize(model, mesh)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the hooks of `CommDebugMode` complain about models that return no tensor
        with Sized() as forward:
            logits = model(**inputs).logits
        # As a loss would send it, without the loss's own collectives: with the layout of the logits.
        gradient = torch.ones_like(logits)
        with Sized() as backward:
            logits.backward(gradient)
    for mode in (forward, backward):
        assert mode.tally.total() == mode.get_total_counts()
    partial = tuple(
        name
        for name, parameter in model.named_parameters()
        if isinstance(parameter.grad, DTensor) and any(each.is_partial() for each in parameter.grad.placements)
    )
    return Measured(forward=forward.tally, backward=backward.tally, partial=partial)


def tally(ledger: Ledger, phase: Phase) -> Tally:
    """The same of a ledger; a mesh of CPUs runs a conversion's all-to-all as an all-gather (`shard_dim_alltoall`)."""
    found: Tally = Counter()
    for entry in ledger.entries:
        if entry.phase == phase:
            gathers = entry.kind == "all_to_all" and not entry.tree
            found["all_gather" if gathers else entry.kind, entry.payload] += entry.count
    return found


def counts(tallied: Tally) -> dict[str, int]:
    """How many there are of each kind."""
    found: Counter[str] = Counter()
    for (kind, _), count in tallied.items():
        found[kind] += count
    return dict(sorted(found.items()))
