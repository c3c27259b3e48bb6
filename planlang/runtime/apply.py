"""Applying styles to the modules of a model: meshes, repeated application, tied weights, errors with their rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from planlang.diagnostics.codes import APPLIED_TWICE, OVERLAPPING_RULES, TORCH_REFUSED
from planlang.diagnostics.finding import Finding, PlanError, Related
from planlang.plan.styles import Style, axis_of
from planlang.runtime.mesh import check_device, submeshes
from planlang.runtime.styles import build
from planlang.runtime.ties import record, restore
from planlang.source import Place

_APPLIED = "_planlang_axes"  # set on a model: the mesh axes that a plan was applied on


def apply(
    model: nn.Module,
    mesh: DeviceMesh,
    styles: Mapping[str, tuple[Style, Place | None]],
    *,
    axes: tuple[str, ...] = ("tp",),
) -> nn.Module:
    """Applies one style to each named module, in place, with torch's `parallelize_module`.

    Beyond what torch does: parameters that were one object stay one object, with the placement of the module that comes
    first in the model; a parameter that was frozen stays frozen; a module with two names is parallelized once; and what
    torch raises names the module and the rule. All that can be refused is refused before the model is changed.

    Args:
        model: the model; its parameters on the mesh's kind of device or on `meta`.
        mesh: a one-dimensional mesh, or one with a dimension named after each axis.
        styles: for each module, by its full name, its style and where the rule stands.
        axes: the mesh axes that the styles act on.

    Returns:
        `model` itself.

    Raises:
        PlanError: the mesh does not fit (`MESH_MISMATCH`), the model is parallel already (`APPLIED_TWICE`), two names
            of one module have different styles (`OVERLAPPING_RULES`), a custom style cannot be made
            (`BAD_CUSTOM_STYLE`), or torch raised (`TORCH_REFUSED`; the model is then parallel in part and must be
            built anew).
        KeyError: the model has no module of a name in `styles`.
    """
    meshes = submeshes(mesh, axes)
    modules = _modules(model, styles)
    _refuse_second(model, modules, axes)
    check_device(mesh, model, modules)
    built: list[tuple[str, nn.Module, DeviceMesh, ParallelStyle]] = []
    for name, module in modules.items():
        style, place = styles[name]
        made = build(style, place)
        axis = axis_of(style)
        if made is not None and axis is not None:
            built.append((name, module, meshes[axis], made))
    # Inner modules first: a style that takes all the parameters below its module leaves those that are placed already.
    built.sort(key=lambda entry: _depth(entry[0]), reverse=True)

    records = record(model)
    setattr(model, _APPLIED, (*getattr(model, _APPLIED, ()), *axes))
    for name, module, submesh, made in built:
        try:
            parallelize_module(module, submesh, made)
        except Exception as error:  # torch raises many kinds, and a custom style any
            raise _torch_refused(name, module, styles[name][1], error) from error
    restore(records)
    return model


def _modules(model: nn.Module, styles: Mapping[str, tuple[Style, Place | None]]) -> dict[str, nn.Module]:
    """The modules that have a style, each under the first of its names."""
    named = dict(model.named_modules(remove_duplicate=False))  # one walk: `get_submodule` costs more for each name
    first: dict[nn.Module, str] = {}
    for name, (style, place) in styles.items():
        other = first.setdefault(named[name], name)
        if other != name and styles[other][0] != style:
            finding = Finding(
                code=OVERLAPPING_RULES,
                message=f"`{other}` and `{name}` are one module, and their rules differ",
                place=place,
                related=_related(styles[other][1], f"the rule of `{other}`"),
                help="give both names one style, or only one of them a rule",
            )
            raise PlanError([finding])
    return {name: module for module, name in first.items()}


def _depth(name: str) -> int:
    """How many modules a module is inside of."""
    return name.count(".") + 1 if name else 0


def _refuse_second(model: nn.Module, modules: Mapping[str, nn.Module], axes: Iterable[str]) -> None:
    """Refuses a model on which one of `axes` is in use, or whose modules are parallel by other means."""
    used = [axis for axis in axes if axis in getattr(model, _APPLIED, ())]
    if used:
        message = f"a plan was applied to this model on the mesh axis `{used[0]}` already"
        raise PlanError([Finding(code=APPLIED_TWICE, message=message, help="build the model anew for another plan")])
    for name, module in modules.items():
        own: dict[str, torch.Tensor | None] = {**module._parameters}
        for parameter_name, parameter in own.items():
            if isinstance(parameter, DTensor):
                finding = Finding(
                    code=APPLIED_TWICE,
                    message=f"`{name}.{parameter_name}` is a DTensor already",
                    notes=(f"it lies {parameter.placements} on {parameter.device_mesh}",),
                    help="apply the plan once, and before `fully_shard`",
                )
                raise PlanError([finding])


def _torch_refused(name: str, module: nn.Module, place: Place | None, error: Exception) -> PlanError:
    """What torch raised, with the module and the rule that it was about."""
    which = f"`{name}`" if name else "the model itself"
    finding = Finding(
        code=TORCH_REFUSED,
        message=f"torch refused the style of {which}, a {type(module).__name__}",
        place=place,
        notes=(f"{type(error).__name__}: {error}", "the model is parallel in part now: build it anew"),
    )
    return PlanError([finding])


def _related(place: Place | None, message: str) -> tuple[Related, ...]:
    return (Related(place=place, message=message),) if place else ()
