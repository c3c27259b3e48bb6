"""Operators that give the same numbers another shape or order."""

from __future__ import annotations

from collections.abc import Sequence

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import Refusal, Run
from planlang.layout import Layout, Shard, shard_size


def _reshape(run: Run) -> tuple[Layout, ...]:
    operand, out = run.operands[0], run.outs[0]
    layout = operand.layout
    if operand.sharded is not None:
        layout = Shard(carried(operand.shape, out, operand.sharded, run.ranks))
    _fits(run, layout, out)
    return (layout,)


def carried(before: Sequence[int], after: Sequence[int], cut: int, ranks: int) -> int:
    """The dimension along which a reshaped tensor is cut.

    Row-major order keeps the parts whole only where the cut dimension is the outermost of the dimensions that are
    merged or split with it (torch: `_ops/_view_ops.py`).

    Raises:
        Refusal: the reshape goes through the parts.
    """
    for left, right in groups(before, after):
        if cut not in left:
            continue
        if before[cut] == 1:
            if len(left) == len(right) == 1:
                return right[0]
            break
        outer = [dim for dim in left if before[dim] != 1]
        kept = [dim for dim in right if after[dim] != 1]
        if len(outer) == 1 and len(kept) == 1:
            return kept[0]
        if outer[0] != cut:
            text = f"the reshape merges dimension {cut}, which is sharded, into dimension {outer[0]}"
            raise Refusal(Fault.CUT, text, blame=(0,))
        if before[cut] % ranks:
            raise Refusal(Fault.UNEVEN, f"{before[cut]} is no multiple of {ranks}", blame=(0,))
        if after[kept[0]] % ranks:
            text = f"the reshape makes a dimension of {after[kept[0]]}, which {ranks} ranks do not divide"
            raise Refusal(Fault.CUT, text, crashes=None, blame=(0,))
        return kept[0]
    raise Refusal(Fault.CUT, f"the reshape goes through dimension {cut}, of length {before[cut]}", blame=(0,))


def groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of dimensions that hold the same numbers before and after."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        left, right = [], []
        a = b = 1
        if i < len(before):
            a *= before[i]
            left.append(i)
            i += 1
        if j < len(after):
            b *= after[j]
            right.append(j)
            j += 1
        while a != b:
            if (a < b and i < len(before)) or j >= len(after):
                if i >= len(before):
                    break
                a *= before[i]
                left.append(i)
                i += 1
            else:
                b *= after[j]
                right.append(j)
                j += 1
        groups.append((left, right))
    return groups


def _fits(run: Run, layout: Layout, out: tuple[int, ...]) -> None:
    """Refuses where the sizes that the code computes on a rank are not those of the rank's part."""
    name = run.name.strip("_")
    if name not in ("view", "reshape", "expand"):
        return
    asked = run.op.args[1:] if len(run.op.args) > 1 else (run.argument(1, "size" if name == "expand" else "shape"),)
    given = asked[0] if len(asked) == 1 and isinstance(asked[0], tuple) else asked
    operand = run.operands[0]
    for rank in run.edges:
        sizes = run.integers(tuple(given) if isinstance(given, tuple) else (given,), rank)
        if sizes is None:  # a view to a dtype
            return
        source = operand.shape if run.distributed else local(operand.shape, operand.layout, run.ranks, rank)
        want = out if run.distributed else local(out, layout, run.ranks, rank)
        have = 1
        for size in source:
            have *= size
        if name == "expand":
            offset = len(sizes) - len(source)
            sizes = tuple(source[i - offset] if size == -1 and i >= offset else size for i, size in enumerate(sizes))
        else:
            sizes = _inferred(sizes, have)
        if sizes != want:
            total = 1
            for size in sizes:
                total *= size
            crashes = True if name == "view" and total != have else None if name == "expand" else total != have
            text = f"on a rank it asks for {_shape(sizes)} where the rank's part is {_shape(want)}"
            raise Refusal(Fault.CUT, text, crashes=crashes, blame=(0,))


def _inferred(sizes: tuple[int, ...], have: int) -> tuple[int, ...]:
    """The sizes with -1 replaced; left where nothing fits."""
    known = 1
    for size in sizes:
        known *= size if size != -1 else 1
    if -1 not in sizes or not known or have % known:
        return sizes
    return tuple(have // known if size == -1 else size for size in sizes)


def _shape(sizes: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, sizes)) + "]"


def local(shape: tuple[int, ...], layout: Layout, ranks: int, rank: int) -> tuple[int, ...]:
    """The shape of a rank's part."""
    if not isinstance(layout, Shard):
        return shape
    dim = layout.dim
    return (*shape[:dim], shard_size(shape[dim], ranks, rank), *shape[dim + 1 :])


def _moved(run: Run) -> tuple[Layout, ...]:
    """Dimensions change places."""
    operand = run.operands[0]
    cut = operand.sharded
    if cut is None:
        return (operand.layout,)
    return (Shard(_order(run, operand.dims).index(cut)),)


def _order(run: Run, dims: int) -> list[int]:
    """Which dimension of the input each dimension of the result is."""
    name = run.name.strip("_")
    order = list(range(dims))
    if name in ("T", "get") and ".T." in run.op.name:
        return order[::-1]
    if name == "get" and run.op.name.split(".")[-2] not in ("mT", "H", "mH"):  # `y.data` and the like
        return order
    if name in ("t", "mT", "adjoint", "get"):
        if dims > 1:
            order[-1], order[-2] = order[-2], order[-1]
        return order
    if name == "permute":
        given = run.op.args[1:]
        picked = run.integers(given[0] if len(given) == 1 and isinstance(given[0], tuple) else tuple(given))
        return [dim % dims for dim in picked] if picked else order
    first, second = run.integer(run.argument(1, "dim0")), run.integer(run.argument(2, "dim1"))
    if name in ("transpose", "swapaxes", "swapdims") and first is not None and second is not None:
        order[first % dims], order[second % dims] = order[second % dims], order[first % dims]
        return order
    source, target = run.integers(run.argument(1, "source")), run.integers(run.argument(2, "destination"))
    if name in ("movedim", "moveaxis") and source and target:
        rest = [dim for dim in order if dim not in {each % dims for each in source}]
        for to, dim in sorted(zip((each % dims for each in target), source, strict=True)):
            rest.insert(to, dim % dims)
        return rest
    raise Refusal(Fault.UNKNOWN, f"the dimensions of `{name}` are not known here")


def order_of(run: Run, shape: Sequence[int]) -> tuple[int, ...]:
    """Which dimension of the input each dimension of the result is; empty if the operator moves none."""
    moves = RULES.get(run.name.strip("_")) is _moved
    return tuple(_order(run, len(shape))) if moves else ()


def _unsqueeze(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    at = (run.integer(run.argument(1, "dim")) or 0) % (operand.dims + 1)
    cut = operand.sharded
    return (operand.layout if cut is None else Shard(cut + (at <= cut)),)


def _squeeze(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    cut = operand.sharded
    if cut is None:
        return (operand.layout,)
    given = run.argument(1, "dim")
    named = run.integers(given) if given is not None else tuple(range(operand.dims))
    gone = {dim % operand.dims for dim in named or () if operand.shape[dim] == 1}
    length = shard_size(operand.shape[cut], run.ranks)
    if cut in gone or (length == 1 and (given is None or cut in {dim % operand.dims for dim in named or ()})):
        raise Refusal(Fault.CUT, f"the squeeze removes dimension {cut}, which is sharded", blame=(0,))
    return (Shard(cut - sum(dim < cut for dim in gone)),)


def _expand(run: Run) -> tuple[Layout, ...]:
    operand, out = run.operands[0], run.outs[0]
    layout = operand.layout
    if operand.sharded is not None:
        moved = operand.sharded + len(out) - operand.dims
        if operand.shape[operand.sharded] != out[moved]:
            raise Refusal(Fault.CUT, f"the expansion repeats dimension {operand.sharded}, which is sharded", blame=(0,))
        layout = Shard(moved)
    _fits(run, layout, out)
    return (layout,)


def _flatten(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    if operand.sharded is None:
        return (operand.layout,)
    out = run.outs[0]
    layout = Shard(carried(operand.shape, out, operand.sharded, run.ranks))
    if run.name.strip("_") == "unflatten" and not run.distributed:
        dim = (run.integer(run.argument(1, "dim")) or 0) % operand.dims
        for rank in run.edges:
            have = local(operand.shape, operand.layout, run.ranks, rank)[dim]
            sizes = _inferred(run.integers(run.argument(2, "sizes"), rank) or (), have)
            if sizes != local(out, layout, run.ranks, rank)[dim : dim + len(sizes)]:
                text = f"on a rank it makes {_shape(sizes)} of a dimension of {have}"
                raise Refusal(Fault.CUT, text, crashes=True, blame=(0,))
    return (layout,)


RULES = (
    dict.fromkeys(("view", "reshape"), _reshape)
    | dict.fromkeys(("flatten", "unflatten", "ravel"), _flatten)
    | dict.fromkeys(("transpose", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "get"), _moved)
    | {"unsqueeze": _unsqueeze, "squeeze": _squeeze, "expand": _expand}
)
