"""Which reshapes of a DTensor torch refuses since a rank's numbers do not lie side by side in memory.

A conversion that pads an uneven part before a collective cuts the padding off after it, and what is left has gaps
(`Shard._unpad_for_new_shard_dim` and `_reduce_shard_tensor`, torch 2.13). A view cannot merge a dimension with gaps
into the one before it. An all-gather leaves none: torch copies its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.operators import views
from planlang.analysis.flow.state import Gaps, Tensor
from planlang.analysis.flow.tape import collective
from planlang.layout import Layout, Shard, shard_size

RESHAPES = ("view", "reshape", "flatten", "unflatten", "ravel")
# Operators whose result, or the gradient of whose input, can be the very tensor that came in.
_SAME = frozenset({"add", "iadd", "radd", "sub", "to", "type_as", "float", "double", "contiguous", "clone", "dropout"})


def left_by(source: Layout | None, target: Layout, shape: Sequence[int], ranks: int) -> Gaps:
    """The dimensions along which a conversion leaves gaps."""
    if source is None or collective(source, target) not in ("all_to_all", "reduce_scatter"):
        return frozenset()
    cut = {each.dim for each in (source, target) if isinstance(each, Shard)}
    return frozenset(dim for dim in cut if shape[dim] % ranks)


def kept(operator: str, gaps: Gaps, dims: int, order: Sequence[int] = ()) -> Gaps:
    """The gaps that may be left after an operator; most write anew, without any.

    Args:
        operator: its name.
        gaps: those of its input.
        dims: how many dimensions its result has.
        order: where it moves dimensions, which of the input each of the result is.
    """
    name = operator.rpartition(".")[2].strip("_")
    if not gaps or name in _SAME:
        return gaps
    if order:
        return frozenset(order.index(dim) for dim in gaps)
    return frozenset(range(dims)) if name in views.RULES else frozenset()


def check_linear(tensor: Tensor, layout: Layout | None, gaps: Gaps) -> None:
    """A linear layer flattens the leading dimensions of its input, and in backward those of its gradient.

    Args:
        tensor: the input or the result.
        layout: how that, or its gradient, lies.
        gaps: where that has gaps.

    Raises:
        Conflict: torch does not flatten it.
    """
    shape = tensor.seen_shape()
    if len(shape) > 2:
        _check("a linear layer flattens its input", tensor, layout, gaps, (prod(shape[:-1]), shape[-1]))


def check_reshape(operator: str, tensor: Tensor, layout: Layout | None, gaps: Gaps, after: Sequence[int]) -> None:
    """A reshape of a DTensor is a view of each rank's part; of plain tensors only `view` is one.

    Args:
        operator: its name; others than reshapes pass.
        tensor: the input, or in backward the result.
        layout: how that, or its gradient, lies.
        gaps: where that has gaps.
        after: the shape that it gets.

    Raises:
        Conflict: torch does not reshape it.
    """
    if operator.rpartition(".")[2].strip("_") not in (("view",) if tensor.plain else RESHAPES):
        return
    _check("it is reshaped", tensor, layout, gaps, after)


def _check(what: str, tensor: Tensor, layout: Layout | None, gaps: Gaps, after: Sequence[int]) -> None:
    shape, ranks = tensor.shape if tensor.plain else tensor.seen_shape(), tensor.ranks
    for before, kept in views.groups(shape, after):
        if _merges(shape, layout, gaps, before, ranks):
            text = f"{what}, and an exchange of uneven parts left it with gaps in memory"
            raise Conflict(Fault.UNEVEN, text, crashes=True, tensors=(tensor,))
        if isinstance(layout, Shard) and layout.dim in before and not tensor.plain:
            fault = _refused(shape, ranks, layout.dim, before, [after[dim] for dim in kept])
            if fault:
                uneven = "is cut unevenly" if fault is Fault.UNEVEN else f"of length {shape[layout.dim]} is sharded"
                text = f"{what}, and dimension {layout.dim} {uneven}"
                raise Conflict(fault, text, crashes=True, tensors=(tensor,))


def _refused(sizes: Sequence[int], ranks: int, cut: int, before: Sequence[int], after: Sequence[int]) -> Fault | None:
    """What torch says against a reshape of the dimensions `before`, of which one is cut, to the sizes `after`."""
    if sizes[cut] == 1:
        return None if [sizes[dim] for dim in before] == list(after) else Fault.CUT
    before, after = [dim for dim in before if sizes[dim] != 1], [size for size in after if size != 1]
    if len(before) == len(after) == 1:
        return None
    if sizes[cut] % ranks and (cut != before[-1] or len(after) > 1):
        return Fault.UNEVEN
    return Fault.CUT if len(after) > 1 and (cut != before[0] or after[0] % ranks) else None


def _merges(shape: Sequence[int], layout: Layout | None, gaps: Gaps, dims: Iterable[int], ranks: int) -> bool:
    """Whether these dimensions, made one, have a gap between two numbers on some rank.

    Along the dimension that is cut the padding was behind the short parts alone.
    """
    inner = list(dims)
    cut = layout.dim if isinstance(layout, Shard) else None
    for rank in range(ranks if gaps else 0):
        sizes = [shard_size(size, ranks, rank) if dim == cut else size for dim, size in enumerate(shape)]
        padded = [
            dim for dim in inner[1:] if dim in gaps and (dim != cut or sizes[dim] < shard_size(shape[dim], ranks))
        ]
        if any(prod(sizes[dim : inner[-1] + 1]) > 1 and prod(sizes[inner[0] : dim]) > 1 for dim in padded):
            return True
    return False
