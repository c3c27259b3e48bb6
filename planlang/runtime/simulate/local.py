"""All ranks in one process: torch's `LocalTensorMode`, which is private, and what it needs.

No other module names it, but for `lean` and `spared`, which make it faster.

Tested with torch 2.13. A `LocalTensor` holds one tensor a rank; an operator on it runs once for each rank, and a
collective is computed from the ranks' tensors. DTensor code runs on top of it unchanged.

What it cannot do by itself, and what is done about it here:

- A collective on tensors of unequal sizes hangs or corrupts memory between real processes. Here it would concatenate
  them, or broadcast one to the other, without a word: `checked_collectives` raises `UnequalSizesError`.
- A collective on a plain tensor goes to the `fake` process group, which does nothing: parameters, buffers and inputs
  are turned into local tensors first, one copy a rank.
- One Python program runs for all ranks. A size in which they differ is a `SymInt` that little code can use: it raises
  `unhashable type: non-nested SymInt`, `NYI`, `no attribute 'mod'` or the like. Of 18 such plans on real processes 17
  raised, died or hung too, some with `integer modulo by zero`, and one was wrong without a word; none was right.
- DTensor remembers the layouts and local sizes of an operator by its arguments and mesh, and two meshes are one to it
  when ranks, shape, device and names are equal. What another process group left there is one rank's own, and what is
  left here is true of all ranks at once: the mesh here has a name that no other has.
- `torch.split` for a reduce-scatter drops a remainder; DTensor pads before, so it does not come to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._local_tensor import LocalTensor, _c10d, local_tensor_mode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils import _pytree as pytree

from planlang.runtime.simulate.lean import LeanLocalTensorMode
from planlang.runtime.simulate.spared import lean

AXIS = "simulated_tp"
_COLLECTIVES = (
    "_local_functional_all_gather_into_tensor",
    "_local_functional_reduce_scatter_tensor",
    "_local_functional_shard_dim_alltoall",
    "_local_broadcast_",
    "_local_all_reduce_",
    "_local_allreduce_coalesced_",
    "_local_allgather_base_",
    "_local_all_gather_",
    "_local_allgather_into_tensor_coalesced_",
    "_local_reduce_scatter_base_",
    "_local_reduce_scatter_tensor_coalesced_",
)


class UnequalSizesError(RuntimeError):
    """The ranks call one collective with tensors of unequal sizes: real processes hang there, or worse."""


@contextmanager
def ranks(tp: int) -> Iterator[DeviceMesh]:
    """Inside, `tp` ranks run at once.

    Yields:
        Their mesh, of one dimension.

    Raises:
        RuntimeError: a process group of real processes exists.
    """
    _world(tp)
    with LeanLocalTensorMode(tp), lean(), checked_collectives():
        yield init_device_mesh("cpu", (tp,), mesh_dim_names=(AXIS,))


def _world(tp: int) -> None:
    """Makes a process group of `tp` ranks that do not exist, or keeps the one there is."""
    if dist.is_initialized():
        if dist.get_backend() != "fake":
            raise RuntimeError("a process group of real processes exists: simulate in a process of its own")
        if dist.get_world_size() == tp:
            return
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=tp, store=FakeStore())


@contextmanager
def checked_collectives() -> Iterator[None]:
    """Inside, a collective that real processes would not come back from raises `UnequalSizesError`."""
    whole = {name: getattr(_c10d, name) for name in _COLLECTIVES}
    for name, function in whole.items():
        setattr(_c10d, name, _checked(name, function))
    try:
        yield
    finally:
        for name, function in whole.items():
            setattr(_c10d, name, function)


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in pytree.tree_leaves((args, kwargs)):
            if isinstance(value, LocalTensor):
                shapes = {rank: tuple(tensor.shape) for rank, tensor in value._local_tensors.items()}
                if len(set(shapes.values())) > 1:
                    what = name.removeprefix("_local_").removeprefix("functional_").strip("_")
                    raise UnequalSizesError(f"{what} of unequal sizes: {shapes}")
        return function(*args, **kwargs)

    return call


def copies(tensor: Tensor, tp: int) -> Tensor:
    """A tensor of which every rank has a copy of its own."""
    own = tensor.detach()
    made: Tensor = LocalTensor({rank: own.clone() for rank in range(tp)})  # type: ignore[no-untyped-call]
    return made


def by_rank(tp: int, make: Callable[[int], Tensor]) -> Tensor:
    """A tensor that each rank has its own of: `make` of its number."""
    mode = local_tensor_mode()
    with mode.disable() if mode else nullcontext():  # else the tensors that `make` makes would be one a rank themselves
        made: Tensor = LocalTensor({rank: make(rank) for rank in range(tp)})  # type: ignore[no-untyped-call]
    return made


def spread(model: nn.Module, tp: int) -> None:
    """Gives every rank its own copy of all parameters and buffers, in place; what is tied stays tied."""
    made: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                if tensor not in made:
                    local = copies(tensor, tp)
                    is_parameter = isinstance(tensor, nn.Parameter)
                    made[tensor] = nn.Parameter(local, tensor.requires_grad) if is_parameter else local
                held[name] = made[tensor]  # type: ignore[assignment]


def of_each_rank(tensor: Tensor, tp: int) -> list[Tensor]:
    """The tensor as each rank has it."""
    if isinstance(tensor, LocalTensor):
        return [tensor._local_tensors[rank] for rank in range(tp)]
    return [tensor] * tp
