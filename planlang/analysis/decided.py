"""A resolved plan that is used for another size or model than its conditions were decided for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planlang.analysis.names import model_text
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.model.tree import Tree
from planlang.plan import ir
from planlang.plan.conditions import Value, spelt
from planlang.source import printable

_ANEW = "compile the plan that it was made from anew"


def decided_otherwise(plan: ir.Plan, name: str, sizes: Mapping[str, int], model: Tree | None) -> Iterator[Finding]:
    """What stands against a plan that was read as data; for one that was resolved just now there is nothing.

    Args:
        plan: the plan.
        name: how to show the file.
        sizes: what is asked for.
        model: the model that it is used for.
    """
    name = printable(name)
    for axis in plan.mesh:
        asked = sizes.get(axis.name)
        if asked is not None and axis.size is not None and asked != axis.size:
            message = f"`{name}` is written for {axis.name}={axis.size}, and {axis.name}={asked} is asked for"
            yield Finding(code=codes.MESH_SIZE_CONFLICT, message=message, help=f"use {axis.name}={axis.size}")
    for axis_name, size in plan.decided.sizes:
        asked = sizes.get(axis_name)
        if asked is not None and asked != size:
            both = f"{axis_name}={size}, and {axis_name}={asked} is asked for"
            message = f"the conditions of `{name}` were decided for {both}"
            help_ = f"{_ANEW}, for {axis_name}={asked}"
            yield Finding(code=codes.DECIDED_OTHERWISE, message=message, help=help_)
    if model is None or model.is_class:
        return
    for setting, value in plan.decided.config:
        if setting not in model.config:
            what = f"{model_text(model)} has no such setting"
        elif not _same(value, model.config[setting]):
            what = f"of {model_text(model)} it is {spelt(model.config[setting])}"
        else:
            continue
        message = f"the conditions of `{name}` were decided for config.{setting}={spelt(value)}, and {what}"
        yield Finding(code=codes.DECIDED_OTHERWISE, message=message, help=f"{_ANEW}, for this model")


def _same(one: Value, other: Value) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other
