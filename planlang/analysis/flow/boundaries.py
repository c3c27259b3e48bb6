"""What torch's styles do at a module's edge (`torch.distributed.tensor.parallel.style`, torch 2.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from planlang.analysis.flow import blocks
from planlang.analysis.flow.cause import Applied, Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.converting import convert, unwrap, wrap
from planlang.analysis.flow.state import Tensor, normalized
from planlang.analysis.flow.tape import Computed
from planlang.layout import Conversion, Layout, Replicate, Shard
from planlang.model.graph import Argument, Enter, Leave, Ref
from planlang.model.tree import Kind
from planlang.plan.styles import Attention, Colwise, Custom, Prepare, Replicated, Rowwise, Sequence, Skip

if TYPE_CHECKING:
    from planlang.analysis.flow.forward import Frame


def enter(frame: Frame, applied: Applied, cause: Cause, event: Enter) -> dict[int, Tensor]:
    """The inputs that a module sees in place of those it was called with, by value.

    Raises:
        Conflict: the style does not fit the call, or torch refuses a conversion.
    """
    style = applied.style
    match style:
        case Colwise() | Rowwise() | Sequence() if style.invariant:
            x, value = _first(frame, event, style.word)
            return {value: blocks.arrive(frame, style, x, cause)}
        case Colwise() | Rowwise():
            x, value = _first(frame, event, style.word)
            embedding = frame.setup.kinds.get(cause.module) is Kind.EMBEDDING
            wanted: Layout = Shard(-1) if isinstance(style, Rowwise) and not embedding else Replicate()
            x = x if x.claim is not None else wrap(frame, x, style.in_, cause)
            # torch compares the layouts as they are written, and looks at the tensor's own only to convert it.
            return {value: x if style.in_ == wanted else convert(frame, x, wanted, cause)}
        case Sequence():
            x, value = _first(frame, event, style.word)
            cut = Shard(style.dim)
            if x.claim is None:
                return {value: wrap(frame, x, cut, cause)}
            return {value: x if x.claim == cut else convert(frame, x, cut, cause)}
        case Prepare():
            return _prepared(frame, style, cause, event)
        case Replicated() | Attention() | Skip() | Custom():
            return {}
        case _:
            assert_never(style)


def _first(frame: Frame, event: Enter, word: str) -> tuple[Tensor, int]:
    first = event.args[0] if event.args else None
    if not isinstance(first, Ref):
        text = f"`{word}` takes the first positional input, and the model calls the module by name alone"
        raise Conflict(Fault.CALL, text if not event.args else f"the first input is no tensor for `{word}`", True)
    return frame.tensor(first.value), first.value


def _prepared(frame: Frame, style: Prepare, cause: Cause, event: Enter) -> dict[int, Tensor]:
    changed: dict[int, Tensor] = {}
    if style.inputs:
        if len(style.inputs) != len(event.args):
            text = f"`prepare` is for {len(style.inputs)} positional inputs, and the module gets {len(event.args)}"
            raise Conflict(Fault.CALL, text, crashes=True)
        for conversion, argument in zip(style.inputs, event.args, strict=True):
            _prepare_one(frame, style, cause, conversion, argument, changed)
    by_name = dict(event.kwargs)
    for name, conversion in style.keywords:
        if name not in by_name:
            text = f"`prepare` is for an input `{name}`, which the module is not given by name: torch ignores it"
            frame.record(Conflict(Fault.CALL, text, crashes=False, cause=cause))
            continue
        _prepare_one(frame, style, cause, conversion, by_name[name], changed)
    return changed


def _prepare_one(
    frame: Frame,
    style: Prepare,
    cause: Cause,
    conversion: Conversion | None,
    argument: Argument,
    changed: dict[int, Tensor],
) -> None:
    if conversion is None:
        return
    if not isinstance(argument, Ref):
        raise Conflict(Fault.CALL, "`prepare` converts an input that is no tensor", crashes=True)
    x = _turned(frame, frame.tensor(argument.value), conversion, cause)
    changed[argument.value] = unwrap(frame, x, cause) if style.local_in else x


def _turned(frame: Frame, x: Tensor, conversion: Conversion, cause: Cause) -> Tensor:
    x = x if x.claim is not None else wrap(frame, x, conversion.source, cause)
    return x if conversion.source == conversion.target else convert(frame, x, conversion.target, cause)


def leave(frame: Frame, applied: Applied, cause: Cause, event: Leave, outs: dict[int, Tensor]) -> dict[int, Tensor]:
    """The outputs that leave a module in place of those that it computed.

    Raises:
        Conflict: the style does not fit what the module returns, or torch refuses a conversion.
    """
    style = applied.style
    match style:
        case Colwise() | Rowwise() | Sequence():
            if len(event.outs) != 1 or not isinstance(event.outs[0], Ref):
                raise Conflict(Fault.CALL, f"`{style.word}` is for a module that returns one tensor", crashes=True)
            y = outs[event.outs[0].value]
            if y.truth is None and y.claim is None:
                return {event.outs[0].value: _trusted(frame, style, y, cause)}
            if style.invariant:
                return {event.outs[0].value: blocks.depart(frame, style, y, cause)}
            if y.claim is None:
                text = f"`{style.word}` expects a DTensor from the module, and it returns a plain tensor"
                raise Conflict(Fault.CALL, text, crashes=True, tensors=(y,))
            if not isinstance(style, Sequence) and y.claim != style.out:
                y = convert(frame, y, style.out, cause)
            return {event.outs[0].value: unwrap(frame, y, cause) if style.local else y}
        case Prepare():
            return _returned(frame, style, cause, event, outs)
        case Replicated() | Attention() | Skip():
            return {}
        case Custom():
            made = {value: frame.new(y, None, None, cause) for value, y in outs.items()}
            frame.trail.steps += [Computed((y,), (made[value],), "", cause.module, (y,)) for value, y in outs.items()]
            return made
        case _:
            assert_never(style)


def _trusted(frame: Frame, style: Colwise | Rowwise | Sequence, y: Tensor, cause: Cause) -> Tensor:
    """A declared boundary ends what is not known: the module's output is taken for what its style says."""
    out = Shard(style.dim) if isinstance(style, Sequence) else style.out
    layout = normalized(out, len(y.shape))
    return frame.new(y, layout, None if style.local else layout, cause)


def _returned(frame: Frame, style: Prepare, cause: Cause, event: Leave, outs: dict[int, Tensor]) -> dict[int, Tensor]:
    if not style.outputs:
        return {}
    if len(style.outputs) != len(event.outs):
        text = f"`prepare` is for {len(style.outputs)} outputs, and the module returns {len(event.outs)}"
        raise Conflict(Fault.CALL, text, crashes=True)
    changed: dict[int, Tensor] = {}
    for conversion, out in zip(style.outputs, event.outs, strict=True):
        if conversion is None:
            continue
        if not isinstance(out, Ref):
            raise Conflict(Fault.CALL, "`prepare` converts an output that is no tensor", crashes=True)
        y = _turned(frame, outs[out.value], conversion, cause)
        changed[out.value] = unwrap(frame, y, cause) if style.local_out else y
    return changed
