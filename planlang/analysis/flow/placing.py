"""Parameters under the styles of the modules that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planlang.analysis.coverage import placement
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.converting import convert
from planlang.analysis.flow.state import REPLICATE, Tensor, normalized
from planlang.analysis.flow.tape import Parameter, Unwrapped
from planlang.layout import Layout, Partial
from planlang.model.graph import Value
from planlang.model.tree import Kind, Node
from planlang.model.tree import Parameter as Shape
from planlang.plan.styles import Custom, Replicated
from planlang.plan.styles import Sequence as SequenceStyle

if TYPE_CHECKING:
    from planlang.analysis.flow.forward import Frame


def placed(frame: Frame, record: Value, names: Sequence[str], name: str) -> Tensor:
    """A parameter with its layout. Of a tied one `planlang.parallelize` keeps the first that a rule places."""
    placed = next((found for each in names if (found := _placement(frame, record, each))), None)
    if placed is None:
        return _held(frame, name, record, REPLICATE, None, None)
    layout, cause = placed
    held = _held(frame, name, record, layout, layout, cause)
    own = _placement(frame, record, name)
    style = own[1].applied.style if own else None
    if own is not None and isinstance(style, SequenceStyle) and style.invariant:  # a copy of it for each block
        local = frame.new(held, held.truth, None, own[1])
        frame.trail.steps.append(Unwrapped(held, local, Partial(), style.reduce))
        return local
    if own is None or layout is None or not isinstance(style, Replicated):
        return held
    if frame.holds_dtensors(own[1].module):
        return held
    whole = held if layout == REPLICATE else convert(frame, held, REPLICATE, own[1])
    local = frame.new(whole, REPLICATE, None, own[1])
    frame.trail.steps.append(Unwrapped(whole, local, Partial() if style.grad == "sum" else REPLICATE))
    return local


def _placement(frame: Frame, record: Value, name: str) -> tuple[Layout | None, Cause] | None:
    """How a rule places a parameter of this name; `None` for the layout where only a custom style knows."""
    owner, _, own = name.rpartition(".")
    above: str | None = owner
    while above is not None:
        applied = frame.setup.applied.get(above)
        style = applied.style if applied else None
        direct = above == owner
        if applied and style and (direct or isinstance(style, Replicated | SequenceStyle)):
            if isinstance(style, Custom):
                return None, Cause(above, applied)
            node = Node("", frame.setup.kinds.get(above, Kind.LINEAR), parameters=())
            layout = placement(style, node, Shape(own, record.shape))
            if layout is not None:
                return normalized(layout, len(record.shape)), Cause(above, applied)
        above = above.rpartition(".")[0] if above else None
    return None


def _held(
    frame: Frame, name: str, record: Value, truth: Layout | None, claim: Layout | None, cause: Cause | None
) -> Tensor:
    made = frame.new(record, truth, claim, cause, grad=record.kind == "float")
    frame.trail.parameters.append(Parameter(name, made))
    return made
