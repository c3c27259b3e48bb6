"""Which mesh the rules of an axis act on, and whether it fits the model."""

from __future__ import annotations

from collections.abc import Collection

from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from planlang.diagnostics.codes import MESH_MISMATCH
from planlang.diagnostics.finding import Finding, PlanError, or_list


def submeshes(mesh: DeviceMesh, axes: tuple[str, ...]) -> dict[str, DeviceMesh]:
    """The one-dimensional mesh of each axis.

    A mesh of one dimension without a name serves as the only axis. Else each axis is the dimension of its name.

    Raises:
        PlanError: a dimension is missing (`MESH_MISMATCH`).
    """
    names = mesh.mesh_dim_names
    if names is None and mesh.ndim == 1 and len(axes) == 1:
        return {axes[0]: mesh}
    missing = [axis for axis in axes if axis not in (names or ())]
    if missing:
        there = (
            f"its dimensions are {or_list(names).replace(' or ', ' and ')}" if names else "its dimensions have no names"
        )
        wanted = ", ".join(f'"{axis}"' for axis in axes)
        finding = Finding(
            code=MESH_MISMATCH,
            message=f"the device mesh has no dimension `{missing[0]}`",
            notes=(f"the mesh has {mesh.ndim} dimension{'s' * (mesh.ndim > 1)} of shape {tuple(mesh.shape)}; {there}",),
            help=f"name the dimensions when the mesh is made: `mesh_dim_names=({wanted},)`",
        )
        raise PlanError([finding])
    return {axis: mesh if mesh.ndim == 1 else mesh[axis] for axis in axes}


def check_device(mesh: DeviceMesh, model: nn.Module, ruled: Collection[str]) -> None:
    """Refuses parameters on another kind of device than the mesh's, which torch would move without a word.

    Args:
        mesh: the mesh that they will lie on.
        model: the model.
        ruled: the names of the modules that have a style; the others may be anywhere.

    Raises:
        PlanError: one is neither on the mesh's kind of device nor on `meta` (`MESH_MISMATCH`).
    """
    fitting = (mesh.device_type, "meta")
    for name, parameter in model.named_parameters(remove_duplicate=False):
        device = parameter.device.type
        if device not in fitting and any(not module or name.startswith(f"{module}.") for module in ruled):
            finding = Finding(
                code=MESH_MISMATCH,
                message=f"`{name}` is on `{device}`, and the device mesh is of `{mesh.device_type}` devices",
                help=f"move the model first, as in `model.to({mesh.device_type!r})`, or make a mesh of its devices",
            )
            raise PlanError([finding])
