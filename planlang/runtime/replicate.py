"""`ReplicateParallel`: the language's `replicate`, which torch has no style for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

# Attributes set on a module that carries the style. They live on the module, not in a hook's closure, so that a deep
# copy of the model swaps its own parameters.
_SITES = "_replicate_parallel_sites"
_SAVED = "_replicate_parallel_saved"


class ReplicateParallel(ParallelStyle):
    """Parameters of a module become replicated DTensors; its forward computes on what arrives.

    Every parameter below the module that no other style has placed yet is taken; buffers stay as they are. What the
    forward sees depends on its inputs:

    - plain tensors: for the length of the call the parameters are swapped for their local tensors, so plain code runs;
    - any DTensor among them: the DTensor parameters themselves, and DTensor works out their gradients.

    A parameter's own `.grad` is a replicated DTensor after a plain call. It is made whole call by call inside autograd,
    so gradients of several micro-batches add up rightly, which a hook on the accumulated gradient would get wrong.

    Keyword Args:
        grad: `sum` where the ranks hold different data, so that each rank's gradient is one term of the whole; `none`
            where every rank computes the same, so that its gradient is whole already.

    Raises:
        ValueError: `grad` is neither.
        RuntimeError: the style is applied twice to one module.
    """

    def __init__(self, *, grad: Literal["sum", "none"] = "sum") -> None:
        super().__init__()
        if grad not in ("sum", "none"):
            raise ValueError(f"grad must be 'sum' or 'none', not {grad!r}")
        self.grad = grad

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if hasattr(module, _SITES):
            raise RuntimeError("ReplicateParallel is on this module already")
        sites = [
            (owner, name)
            for owner in module.modules()
            for name, parameter in owner._parameters.items()
            if parameter is not None and not isinstance(parameter, DTensor)
        ]
        placed: dict[nn.Parameter, nn.Parameter] = {}  # keeps parameters tied inside the module tied
        for owner, name in sites:
            whole = owner._parameters[name]
            assert whole is not None
            if whole not in placed:
                replicated = distribute_tensor(whole, device_mesh, [Replicate()], src_data_rank=self.src_data_rank)
                placed[whole] = nn.Parameter(replicated, requires_grad=whole.requires_grad)
            owner.register_parameter(name, placed[whole])
        setattr(module, _SITES, sites)
        setattr(module, _SAVED, [])
        placement: Placement = Partial() if self.grad == "sum" else Replicate()
        module.register_forward_pre_hook(_Enter((placement,)), with_kwargs=True)
        # Also after an exception: recomputing a checkpointed module ends with one.
        module.register_forward_hook(_leave, always_call=True)
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}(grad={self.grad!r})"


class _Enter:
    """The hook before the forward: puts local tensors where the parameters were."""

    def __init__(self, grad_placements: tuple[Placement, ...]) -> None:
        self.grad_placements = grad_placements

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        saved: list[tuple[nn.Module, str, DTensor]] = []
        getattr(module, _SAVED).append(saved)
        if _any_dtensor(args) or _any_dtensor(kwargs.values()):
            return
        for owner, name in getattr(module, _SITES):
            parameter = owner._parameters[name]
            if isinstance(parameter, DTensor):
                saved.append((owner, name, parameter))
                owner._parameters[name] = self._local(parameter)

    def _local(self, parameter: DTensor) -> torch.Tensor:
        # Backward of `to_local` says what a rank's gradient is; backward of `redistribute` turns that into the
        # parameter's own placement. That is one all-reduce for `Partial` and nothing for `Replicate`. A parameter that
        # is tied to a sharded one is gathered here and its gradient scattered.
        whole = parameter.redistribute(placements=(Replicate(),))
        local: torch.Tensor = whole.to_local(grad_placements=self.grad_placements)
        return local


def _leave(module: nn.Module, args: object, output: object) -> None:
    """The hook behind the forward: puts the parameters back."""
    for owner, name, parameter in getattr(module, _SAVED).pop():
        owner._parameters[name] = parameter


def _any_dtensor(values: Iterable[object]) -> bool:
    """Whether a DTensor is among `values` or inside their tuples, lists and dicts."""
    for value in values:
        if isinstance(value, DTensor):
            return True
        if isinstance(value, (tuple, list)) and _any_dtensor(value):
            return True
        if isinstance(value, dict) and _any_dtensor(value.values()):
            return True
    return False
