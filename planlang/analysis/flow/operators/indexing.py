"""Operators that take parts of tensors, or put tensors together."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import REPLICATE, Refusal, Run
from planlang.layout import Layout, Shard
from planlang.model.graph import Argument, Other, Ref, Size, Slice

_PACKED = "it takes a range along dimension {dim}, of which each rank has only a part"


def _getitem(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    index = run.op.args[1] if len(run.op.args) > 1 else None
    if len(run.operands) > 1:
        return _gathered(run)
    out, _ = indexed(run, index if isinstance(index, tuple) else (index,), operand.sharded)
    if operand.sharded is None:
        return tuple(operand.layout for _ in run.outs)
    return tuple(Shard(out) for _ in run.outs)


def indexed(run: Run, index: tuple[Argument, ...], cut: int | None) -> tuple[int, int]:
    """Where in the result of an index without tensors the cut dimension is, and how many dimensions that has.

    Raises:
        Refusal: the index takes a part of the cut dimension, or something else on a rank than on a single device.
    """
    operand = run.operands[0]
    taken = sum(each is not None and not _is_ellipsis(each) for each in index)
    index = index if any(map(_is_ellipsis, index)) else (*index, Other("..."))
    source = out = 0
    found = 0
    for each in index:
        if each is None:
            out += 1
        elif _is_ellipsis(each):
            skipped = operand.dims - taken
            if cut is not None and source <= cut < source + skipped:
                found = out + cut - source
            source, out = source + skipped, out + skipped
        else:
            if source == cut:
                if not (isinstance(each, Slice) and _is_all(run, each, operand.shape[cut])):
                    raise Refusal(Fault.PACKED, _PACKED.format(dim=cut), crashes=None, blame=(0,))
                found = out
            else:
                _hold(run, each, source)
            out += isinstance(each, Slice)
            source += 1
    return found, out


def _hold(run: Run, each: Argument, dim: int) -> None:
    """Refuses where a slice or an index of a dimension is another on a rank."""
    sizes = (each.start, each.stop, each.step) if isinstance(each, Slice) else (each,)
    if not any(isinstance(size, Size) for size in sizes):
        return
    length = run.operands[0].shape[dim]
    whole = [size.number if isinstance(size, Size) else run.integer(size) for size in sizes]
    for rank in run.edges:
        here = [run.integer(size, rank) for size in sizes]
        same = here == whole if len(here) == 1 else slice(*here).indices(length) == slice(*whole).indices(length)
        if not same:
            text = "it takes a range by a length that was read off a tensor of which the rank has a part"
            raise Refusal(Fault.LENGTH, text, crashes=None, blame=(0,))


def _is_ellipsis(each: Argument) -> bool:
    return isinstance(each, Other) and each.text == "..."


def _is_all(run: Run, each: Slice, length: int) -> bool:
    """Whether a slice takes a dimension whole, by the code's own numbers on a rank."""
    if each.start not in (None, 0) or each.step not in (None, 1):
        return False
    if each.stop is None:
        return True
    return isinstance(each.stop, Size) and each.stop.number == length and run.number(each.stop, 0) * run.ranks == length


def _gathered(run: Run) -> tuple[Layout, ...]:
    """Indexing with tensors: only the part along a dimension that is not indexed can be cut."""
    operand, *indices = run.operands
    whole = all(each.layout == REPLICATE for each in indices)
    if whole and operand.layout == REPLICATE:
        return tuple(REPLICATE for _ in run.outs)
    index = run.op.args[1] if len(run.op.args) > 1 else None
    leading = index if isinstance(index, tuple) else (index,)
    first = all(isinstance(each, Ref) for each in leading)
    if whole and first and operand.partial:
        return tuple(operand.layout for _ in run.outs)
    if whole and first and operand.sharded is not None and operand.sharded >= len(leading):
        rank = len(run.outs[0]) - (operand.dims - len(leading))
        return tuple(Shard(operand.sharded - len(leading) + rank) for _ in run.outs)
    raise Refusal(Fault.MISMATCH, "it is indexed with a tensor where it is sharded", crashes=None, blame=(0, 1))


def _pieces(run: Run) -> tuple[Layout, ...]:
    """`chunk`, `split`, `unbind`, `narrow`, `select`."""
    operand = run.operands[0]
    name = run.name.strip("_")
    if operand.sharded is None:
        return tuple(operand.layout for _ in run.outs)
    position = 1 if name in ("unbind", "narrow", "select") else 2
    dim = (run.integer(run.argument(position, "dim", 0)) or 0) % operand.dims
    if dim == operand.sharded:
        raise Refusal(Fault.PACKED, _PACKED.format(dim=dim), crashes=None, blame=(0,))
    gone = name in ("unbind", "select") and dim < operand.sharded
    return tuple(Shard(operand.sharded - gone) for _ in run.outs)


def _joined(run: Run) -> tuple[Layout, ...]:
    """`cat` and `stack`."""
    layouts = {operand.layout for operand in run.operands}
    if len(layouts) > 1:
        text = "the tensors that it puts together do not lie alike"
        blame = sorted(range(len(run.operands)), key=lambda i: run.operands[i].layout == REPLICATE)
        raise Refusal(Fault.MISMATCH, text, crashes=None, blame=tuple(blame))
    layout = next(iter(layouts))
    if not isinstance(layout, Shard):
        return (layout,)
    stacks = run.name.strip("_") == "stack"
    dims = run.operands[0].dims + stacks
    dim = (run.integer(run.argument(1, "dim", 0)) or 0) % dims
    if stacks:
        return (Shard(layout.dim + (dim <= layout.dim)),)
    if dim == layout.dim:
        text = f"it puts parts together along dimension {dim}, of which each rank has only a part"
        raise Refusal(Fault.PACKED, text, crashes=False, blame=(0,))
    return (layout,)


def _pad(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    widths = run.integers(run.argument(1, "pad")) or ()
    touched = {operand.dims - 1 - i // 2 for i, width in enumerate(widths) if width}
    if operand.sharded in touched or operand.partial:
        raise Refusal(Fault.PACKED, f"it pads dimension {operand.sharded}, of which each rank has a part", blame=(0,))
    return (operand.layout,)


def _repeat(run: Run) -> tuple[Layout, ...]:
    """`repeat` and `repeat_interleave`: whole along the dimension that is repeated."""
    operand, out = run.operands[0], run.outs[0]
    if operand.sharded is None and len(run.operands) == 1:
        return (operand.layout,)
    cut = operand.sharded
    if cut is None or len(run.operands) > 1 or len(out) != operand.dims:
        raise Refusal(Fault.UNKNOWN, f"`{run.name}` of a sharded tensor is not known here", blame=(0,))
    # `repeat_interleave` repeats each of a rank's entries in place, so the ranks' parts stay in order.
    in_place = run.name == "repeat_interleave" and operand.shape[cut] % run.ranks == 0
    if out[cut] != operand.shape[cut] and not in_place:
        raise Refusal(Fault.CUT, f"it repeats dimension {cut}, of which each rank has a part", blame=(0,))
    return (operand.layout,)


RULES = (
    {"getitem": _getitem, "cat": _joined, "concat": _joined, "stack": _joined, "pad": _pad}
    | dict.fromkeys(("chunk", "split", "unbind", "narrow", "select", "tensor_split"), _pieces)
    | dict.fromkeys(("repeat", "repeat_interleave", "tile"), _repeat)
)
