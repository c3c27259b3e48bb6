"""What a module under one of these styles knows of its style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

_SETTINGS = "_invariant_settings"


@dataclass(frozen=True, slots=True)
class Settings:
    """A style on a mesh.

    Attributes:
        mesh: of one dimension.
        blocks: in how many blocks the module is computed, on all ranks together.
        arrives: how its input lies.
        leaves: how its output is to lie.
        local: whether the output is a plain tensor.
        dtype: what sums over blocks are added in; `None` for the tensors' own type.
    """

    mesh: DeviceMesh
    blocks: int
    arrives: Placement
    leaves: Placement
    local: bool
    dtype: torch.dtype | None

    @property
    def own(self) -> int:
        """How many blocks a rank has."""
        return self.blocks // self.mesh.size()

    def __deepcopy__(self, memo: dict[int, Any]) -> Settings:
        return self  # a copy of a model is on the same mesh


def keep(module: nn.Module, settings: Settings) -> None:
    """Gives a module its settings."""
    setattr(module, _SETTINGS, settings)


def of(module: nn.Module) -> Settings:
    """The settings that `keep` gave a module."""
    found: Settings = getattr(module, _SETTINGS)
    return found


def found_in(module: nn.Module) -> Settings | None:
    """The settings of a module, or `None` where no invariant style has been applied to it."""
    settings: Settings | None = getattr(module, _SETTINGS, None)
    return settings


def check_blocks(blocks: int, mesh: DeviceMesh) -> None:
    """Refuses blocks that the ranks cannot share, or whose sum is no whole tree.

    Raises:
        ValueError: `blocks` is no power of two, or the number of ranks does not divide it.
    """
    if blocks < 1 or blocks & (blocks - 1):
        raise ValueError(f"the number of blocks must be a power of two, not {blocks}")
    if blocks % mesh.size():
        raise ValueError(f"{mesh.size()} ranks do not divide {blocks} blocks")


def check_width(what: str, width: int, blocks: int, least: int = 1) -> None:
    """Refuses a width that blocks do not divide, or divide into too narrow ones.

    Args:
        what: words for the width.
        width: what is cut into blocks.
        blocks: how many.
        least: how wide a block has to be: a product with one row or column runs in another kernel.

    Raises:
        ValueError: they do not divide it, or a block is narrower.
    """
    if width % blocks:
        raise ValueError(f"{blocks} blocks do not divide {what} of {width}")
    if blocks > 1 and width // blocks < least:
        raise ValueError(f"{blocks} blocks of {what} of {width} are {width // blocks} wide, and need {least}")


def local(tensor: Tensor) -> Tensor:
    """A rank's own part of a parameter."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def arrived(x: Tensor, settings: Settings, wanted: Placement) -> Tensor:
    """A rank's part of an input once it lies as wanted; its gradient will lie so too."""
    if not isinstance(x, DTensor):
        if settings.arrives == wanted:
            return x
        x = DTensor.from_local(x, settings.mesh, [settings.arrives], run_check=False)
    last = Shard(x.ndim - 1)
    wanted = last if wanted == Shard(-1) else wanted
    if x.placements != (wanted,):
        x = x.redistribute(placements=[wanted])
    return x.to_local(grad_placements=[wanted])


def left(y: Tensor, settings: Settings, lies: Placement) -> Tensor:
    """An output as the style has it leave, from a rank's part of it that lies as `lies`."""
    if settings.leaves == lies and settings.local:
        return y
    whole = DTensor.from_local(y, settings.mesh, [lies], run_check=False)
    if settings.leaves != lies:
        whole = whole.redistribute(placements=[settings.leaves])
    return whole.to_local() if settings.local else whole


def cast(*tensors: Tensor | None) -> list[Tensor | None]:
    """The tensors in the type that autocast has products computed in, where it is on; it leaves float64 as it is."""
    kind = next(each.device.type for each in tensors if each is not None)
    if not torch.is_autocast_enabled(kind):
        return list(tensors)
    dtype = torch.get_autocast_dtype(kind)
    return [each if each is None or each.dtype == torch.float64 else each.to(dtype) for each in tensors]


REPLICATE = Replicate()
LAST = Shard(-1)
