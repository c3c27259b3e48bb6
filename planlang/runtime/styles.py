"""From resolved styles to objects of torch's own classes."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, assert_never

import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

from planlang import layout as layouts
from planlang.diagnostics.codes import BAD_CUSTOM_STYLE
from planlang.diagnostics.finding import Finding, PlanError
from planlang.plan.styles import Attention, Colwise, Custom, Prepare, Replicated, Rowwise, Sequence, Skip, Style
from planlang.runtime.invariant import (
    InvariantAttention,
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
)
from planlang.runtime.replicate import ReplicateParallel
from planlang.source import Place

__all__ = ["ReplicateParallel", "build", "placement"]


def placement(layout: layouts.Layout) -> Placement:
    """The layout as torch's placement."""
    match layout:
        case layouts.Replicate():
            return Replicate()
        case layouts.Shard(dim):
            return Shard(dim)
        case layouts.Partial(op):
            return Partial(op)
        case _:
            assert_never(layout)


def build(style: Style, place: Place | None = None) -> ParallelStyle | None:
    """A fresh object of the torch class that `style` stands for; `None` for `skip`.

    Consumers look at the exact class and change objects in place, so the classes are torch's own, no two calls share an
    object, and an argument that has torch's default is not passed.

    Args:
        style: a resolved style.
        place: where its rule stands, for the error.

    Raises:
        PlanError: a custom style cannot be imported or made, or is no `ParallelStyle` (`BAD_CUSTOM_STYLE`).
    """
    match style:
        case Colwise() | Rowwise():
            arguments: dict[str, Any] = {}
            plain = type(style)()
            own = _blocks(style)
            if style.in_ != plain.in_:
                arguments["input_layouts"] = placement(style.in_)
            if style.out != plain.out:
                arguments["output_layouts"] = placement(style.out)
            if style.local != plain.local:
                arguments["use_local_output"] = style.local
            if own:
                invariant = InvariantColwiseParallel if isinstance(style, Colwise) else InvariantRowwiseParallel
                return invariant(**own, **arguments)
            return ColwiseParallel(**arguments) if isinstance(style, Colwise) else RowwiseParallel(**arguments)
        case Sequence():
            split: dict[str, Any] = {"sequence_dim": style.dim, "use_local_output": style.local}
            return (
                InvariantSequenceParallel(**_blocks(style), **split) if style.invariant else SequenceParallel(**split)
            )
        case Prepare():
            return _prepare(style)
        case Replicated():
            return ReplicateParallel(grad=style.grad)
        case Attention():
            return InvariantAttention(blocks=style.invariant)
        case Skip():
            return None
        case Custom():
            return _custom(style, place)
        case _:
            assert_never(style)


def _blocks(style: Colwise | Rowwise | Sequence) -> dict[str, Any]:
    """The arguments of an invariant style that the plain one lacks; none for the plain one."""
    if not style.invariant:
        return {}
    acc = style.reduce.acc
    return {"blocks": style.invariant, "accumulate": getattr(torch, acc)} if acc else {"blocks": style.invariant}


def _prepare(style: Prepare) -> ParallelStyle:
    """`PrepareModuleInput`, `PrepareModuleOutput` or both in one, by which side is given."""
    inputs: dict[str, Any] = {}
    if style.inputs:
        inputs["input_layouts"], inputs["desired_input_layouts"] = _sides(style.inputs)
    if style.keywords:
        inputs["input_kwarg_layouts"] = {name: placement(turn.source) for name, turn in style.keywords}
        inputs["desired_input_kwarg_layouts"] = {name: placement(turn.target) for name, turn in style.keywords}
    if not style.outputs:
        return PrepareModuleInput(**inputs, use_local_output=style.local_in)
    outputs: dict[str, Any] = {"use_local_output": style.local_out}
    outputs["output_layouts"], outputs["desired_output_layouts"] = _sides(style.outputs)
    if not inputs:
        return PrepareModuleOutput(**outputs)
    return PrepareModuleInputOutput(**inputs, use_local_input=style.local_in, **outputs)


def _sides(
    conversions: Iterable[layouts.Conversion | None],
) -> tuple[tuple[Placement | None, ...], tuple[Placement | None, ...]]:
    """The placements that tensors arrive with and those they are turned into; `None` where one is left alone."""
    turns = tuple(conversions)
    return (
        tuple(placement(turn.source) if turn else None for turn in turns),
        tuple(placement(turn.target) if turn else None for turn in turns),
    )


def _custom(style: Custom, place: Place | None) -> ParallelStyle:
    """Imports the class that a `custom` style names and calls it with the style's arguments."""

    def refuse(message: str, note: str = "", help: str = "") -> PlanError:
        notes = (note,) if note else ()
        return PlanError([Finding(code=BAD_CUSTOM_STYLE, message=message, place=place, notes=notes, help=help)])

    module_name, _, class_path = style.path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for name in class_path.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:  # importing runs the user's code, which may raise anything, and may exit
        raise refuse(
            f"the custom style `{style.path}` cannot be imported",
            note=f"{type(error).__name__}: {error}",
            help="name it as `package.module:Class`, importable where the plan is used",
        ) from error
    arguments = {
        name: placement(value) if isinstance(value, (layouts.Replicate, layouts.Shard, layouts.Partial)) else value
        for name, value in style.arguments
    }
    try:
        made = found(**arguments)
    except Exception as error:
        raise refuse(
            f"the custom style `{style.path}` cannot be made from its arguments",
            note=f"{type(error).__name__}: {error}",
        ) from error
    if not isinstance(made, ParallelStyle):
        raise refuse(
            f"the custom style `{style.path}` makes `{type(made).__name__}`, which is no ParallelStyle",
            help="derive the class from `torch.distributed.tensor.parallel.ParallelStyle`",
        )
    return made
