"""Which layouts DTensor converts an operator's inputs to, where they do not fit as they are.

For each operator torch lists rows: layouts of the inputs that it can run on, and the layout of the result. Where the
inputs match no row, DTensor takes the row that is cheapest to convert to (`_sharding_prop.py`,
`_select_min_cost_strategy`), by the costs of `_collective_utils.py`. Torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TypeAlias

from planlang.layout import Layout, Partial, Replicate, Shard

Shape: TypeAlias = tuple[int, ...]
REPLICATE = Replicate()
_WIDTH = 2  # bytes of a number: the choice is that of a model in bfloat16
_LATENCY, _HOP, _BANDWIDTH = 6.6, 0.6, 87.7  # microseconds, microseconds, gigabytes a second

# Operators by the rows that partial sums have in `_ops/_pointwise_ops.py`.
ADDITIVE = frozenset({"add", "sub", "iadd", "isub", "radd", "rsub"})
PRODUCTS = frozenset({"mul", "rmul", "imul", "multiply"})
QUOTIENTS = frozenset({"div", "truediv", "itruediv", "true_divide"})
LINEAR = frozenset({"neg", "to", "type_as", "float", "double", "half", "bfloat16", "contiguous", "detach"})


@dataclass(frozen=True, slots=True)
class Row:
    """Layouts of the inputs that an operator runs on, and of its result."""

    ins: tuple[Layout, ...]
    out: Layout


def cost(source: Layout, target: Layout, shape: Shape, ranks: int) -> float:
    """What a conversion costs, in microseconds, as `_compute_placement_transition_cost` has it."""
    if source == target:
        return 0.0
    size = prod(shape) * _WIDTH / 2**30
    hops = ranks - 1
    match source, target:
        case Replicate(), _:
            return 0.0
        case Shard(), Replicate():
            return _LATENCY + hops * _HOP + size * hops / ranks / _BANDWIDTH * 1e6
        case Shard(), Shard():
            return _LATENCY + hops * _HOP + size / ranks * hops / ranks / _BANDWIDTH * 1e6 + 1.0
        case Partial(), Replicate():
            return _LATENCY + 2 * hops * _HOP + size * 2 * hops / ranks / _BANDWIDTH * 1e6
        case Partial(), Shard():
            return _LATENCY + hops * _HOP + size * hops / ranks / _BANDWIDTH * 1e6
        case _:
            return inf


def cheapest(
    rows: Sequence[Row], layouts: Sequence[Layout], shapes: Sequence[Shape], ranks: int, *, uneven: bool = False
) -> Row:
    """The row that DTensor converts to: of those that cost the same the first (`_select_min_cost_strategy`).

    Args:
        rows: all rows of the operator.
        layouts: of the inputs.
        shapes: of the inputs, on a single device.
        ranks: the size of the mesh axis.
        uneven: whether an input may stay cut along a dimension of which some rank has nothing.
    """

    def price(row: Row) -> float:
        return sum(cost(have, want, shape, ranks) for have, want, shape in zip(layouts, row.ins, shapes, strict=True))

    def cuttable(want: Layout, have: Layout, shape: Shape) -> bool:
        return not isinstance(want, Shard) or shape[want.dim] >= ranks or (uneven and want == have)

    fitting = [row for row in rows if all(map(cuttable, row.ins, layouts, shapes))]
    exact = [row for row in fitting if row.ins == tuple(layouts)]
    return exact[0] if exact else min(fitting, key=price)


def pointwise(name: str, layouts: Sequence[Layout], shapes: Sequence[Shape], ranks: int) -> Row:
    """The row of an operator that works number by number.

    Args:
        name: the operator without its module and underscores.
        layouts: of the inputs.
        shapes: of the inputs, on a single device.
        ranks: the size of the mesh axis.
    """
    dims = max(map(len, shapes), default=0)
    sizes = [max(shape[dim - dims] for shape in shapes if len(shape) >= dims - dim) for dim in range(dims)]
    rows = [Row((REPLICATE,) * len(shapes), REPLICATE)]
    if any(isinstance(layout, Shard) for layout in layouts):
        for dim in range(dims):
            owns = [dim - dims + len(shape) for shape in shapes]
            cut = [
                Shard(own) if own >= 0 and shape[own] == sizes[dim] else REPLICATE
                for own, shape in zip(owns, shapes, strict=True)
            ]
            rows.append(Row(tuple(cut), Shard(dim)))
    rows += [Row(ins, Partial(op)) for op in ("sum", "avg") for ins in _partial_rows(name, len(shapes), Partial(op))]
    return cheapest(rows, layouts, shapes, ranks, uneven=True)


def _partial_rows(name: str, count: int, partial: Partial) -> Iterator[tuple[Layout, ...]]:
    if count == 1 and name in PRODUCTS | QUOTIENTS | LINEAR:
        yield (partial,)
    elif count == 2 and name in ADDITIVE:
        yield (partial, partial)
        if partial.op == "avg":
            yield from ((partial, REPLICATE), (REPLICATE, partial))
    elif count == 2 and name in PRODUCTS:
        yield from ((partial, REPLICATE), (REPLICATE, partial))
    elif count == 2 and name in QUOTIENTS:
        yield (partial, REPLICATE)


_PRODUCT_ROWS = (  # `[M, K] @ [K, N]`, `_ops/_matrix_ops.py`
    Row((REPLICATE, REPLICATE), REPLICATE),
    Row((Shard(0), REPLICATE), Shard(0)),
    Row((REPLICATE, Shard(1)), Shard(1)),
    Row((Shard(1), Shard(0)), Partial()),
    Row((Partial(), REPLICATE), Partial()),
    Row((REPLICATE, Partial()), Partial()),
)


def linear(x: Layout, weight: Layout, x_shape: Shape, w_shape: Shape, ranks: int) -> Row:
    """The row of `x @ weight.T`, x [..., K], weight [N, K].

    The leading dimensions of x are flattened into one. One that is cut and not the outermost makes a `_StridedShard` of
    that, which fits a whole weight and is gathered for any other.
    """
    last = len(x_shape) - 1
    if _inner(x, last):
        if weight == REPLICATE:
            return Row((x, weight), x)
        x = _flattened(x, x_shape)
    cut = x.dim if isinstance(x, Shard) and x.dim != last else 0
    tokens = prod(x_shape[:-1])
    left = _renamed(x, {last: 1, cut: 0})
    row = cheapest(_PRODUCT_ROWS, (left, _renamed(weight, {0: 1, 1: 0})), ((tokens, x_shape[-1]), w_shape[::-1]), ranks)
    ins = (_renamed(row.ins[0], {1: last, 0: cut}), _renamed(row.ins[1], {0: 1, 1: 0}))
    return Row(ins, _renamed(row.out, {1: last, 0: cut}))


def weight_gradient(grad: Layout, x: Layout, g_shape: Shape, x_shape: Shape, ranks: int) -> Row:
    """The row of `grad.T @ x`, the gradient of a linear layer's weight: grad [..., N], x [..., K]."""
    last = len(x_shape) - 1
    if _inner(x, last) and grad == x:
        return Row((grad, x), Partial())
    grad, x = _flattened(grad, g_shape), _flattened(x, x_shape)
    left = Shard(0 if grad.dim == last else 1) if isinstance(grad, Shard) else grad
    right = Shard(1 if x.dim == last else 0) if isinstance(x, Shard) else x
    tokens = prod(x_shape[:-1])
    row = cheapest(_PRODUCT_ROWS, (left, right), ((g_shape[-1], tokens), (tokens, x_shape[-1])), ranks)
    cut = next((each.dim for each in (grad, x) if isinstance(each, Shard) and each.dim != last), 0)
    return Row((_renamed(row.ins[0], {0: last, 1: cut}), _renamed(row.ins[1], {1: last, 0: cut})), row.out)


def _inner(layout: Layout, last: int) -> bool:
    """Whether a leading dimension is cut."""
    return isinstance(layout, Shard) and layout.dim != last


def _flattened(layout: Layout, shape: Shape) -> Layout:
    """The layout that is left when leading dimensions are flattened and what became strided is gathered."""
    strided = isinstance(layout, Shard) and layout.dim != len(shape) - 1 and prod(shape[: layout.dim]) != 1
    return REPLICATE if strided else layout


def _renamed(layout: Layout, dims: dict[int, int]) -> Layout:
    return Shard(dims[layout.dim]) if isinstance(layout, Shard) else layout
