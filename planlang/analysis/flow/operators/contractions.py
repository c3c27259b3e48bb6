"""Products and lookups: linear layers, matrix products, embeddings."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import REPLICATE, Operand, Refusal, Run, undistributed
from planlang.layout import Layout, Partial, Shard


def _linear(run: Run) -> tuple[Layout, ...]:
    """`linear(x, weight, bias)`: x [..., K], weight [N, K], bias [N]."""
    x, weight, *rest = run.operands
    product = _product(x, weight, contracted=(x.dims - 1, 1), kept=0, out=len(run.outs[0]) - 1)
    for index, bias in enumerate(rest, 2):
        whole = bias.layout == REPLICATE
        if isinstance(product, Partial):
            text = "a bias is added to a partial sum on every rank, so it counts once a rank"
            raise Refusal(Fault.PARTIAL, text, crashes=False, blame=(0, index))
        if weight.sharded == 0 and bias.sharded != 0:
            raise Refusal(Fault.MISMATCH, "the weight is sharded and its bias is not", crashes=True, blame=(1, index))
        if weight.sharded != 0 and not whole:
            raise Refusal(Fault.MISMATCH, "the bias is sharded and its weight is not", crashes=True, blame=(index, 1))
    return (product,)


def _product(x: Operand, weight: Operand, *, contracted: tuple[int, int], kept: int, out: int) -> Layout:
    """The layout of a product that sums over `contracted`; the weight's dimension `kept` becomes dimension `out`."""
    a, b = x.sharded, weight.sharded
    if x.partial or weight.partial:
        if x.partial and weight.partial:
            raise Refusal(Fault.PARTIAL, "two partial sums are multiplied", crashes=False, blame=(0, 1))
        other = weight if x.partial else x
        partial = x if x.partial else weight
        if other.sharded is not None:
            raise Refusal(Fault.PARTIAL, "a partial sum meets a sharded tensor", crashes=None, blame=(0, 1))
        return partial.layout
    if a == contracted[0] and b == contracted[1]:
        return Partial()
    if a == contracted[0] or b == contracted[1]:
        what = "input is sharded along the dimension" if a == contracted[0] else "weight is sharded along the dimension"
        text = f"the {what} that the product sums over, and the other factor is not"
        raise Refusal(Fault.MISMATCH, text, crashes=True, blame=(0, 1) if a == contracted[0] else (1, 0))
    if a is not None and b is not None:
        raise Refusal(
            Fault.MISMATCH, "both factors are sharded, along different dimensions", crashes=None, blame=(0, 1)
        )
    if a is not None:
        return Shard(a)
    return Shard(out) if b == kept else REPLICATE


def _matmul(run: Run) -> tuple[Layout, ...]:
    """`matmul(a, b)`: a [..., M, K], b [..., K, N], leading dimensions broadcast."""
    if len(run.operands) == 1:  # a tensor with itself
        raise Refusal(Fault.UNKNOWN, "a product of a tensor with itself is not known here", blame=(0,))
    a, b = run.operands[:2]
    if a.dims < 2 or b.dims < 2:
        if a.layout == b.layout == REPLICATE:
            return (REPLICATE,)
        raise Refusal(Fault.UNKNOWN, "a product with a vector is not known here", blame=(0, 1))
    out = len(run.outs[0])
    ca, cb = a.sharded, b.sharded
    # Both cut along one leading dimension: every rank multiplies its own pairs.
    batch = {0: None if ca is None else ca + out - a.dims, 1: None if cb is None else cb + out - b.dims}
    if batch[0] is not None and batch[0] == batch[1] and batch[0] < out - 2:
        if a.shape[ca or 0] != b.shape[cb or 0]:
            raise Refusal(Fault.MISMATCH, "a sharded dimension of size 1 is broadcast", blame=(0, 1))
        return (Shard(batch[0]),)
    for index, dim in batch.items():
        other = run.operands[1 - index]
        if dim is not None and dim < out - 2:
            own = dim - (out - other.dims)
            if other.layout == REPLICATE and (own < 0 or other.shape[own] == 1):
                return (Shard(dim),)
            text = f"one factor is sharded along dimension {dim} and the other is not"
            raise Refusal(Fault.MISMATCH, text, crashes=True, blame=(index, 1 - index))
    layout = _product(a, b, contracted=(a.dims - 1, b.dims - 2), kept=b.dims - 1, out=out - 1)
    if isinstance(layout, Shard) and ca is not None:
        return (Shard(ca + out - a.dims),)
    return (layout,)


def _embedding(run: Run) -> tuple[Layout, ...]:
    """`embedding(ids, weight)`: ids [...], weight [V, H]."""
    ids, weight = run.operands[:2]
    if dict(run.op.kwargs).get("max_norm") is not None or (len(run.op.args) > 3 and run.op.args[3] is not None):
        raise Refusal(Fault.UNKNOWN, "with `max_norm` an embedding writes into its weight, each rank by its own rows")
    if weight.sharded == 0:
        if ids.layout != REPLICATE:
            raise Refusal(Fault.MISMATCH, "ids and vocabulary are both sharded", crashes=None, blame=(0, 1))
        return (Partial(),)  # DTensor masks the ids that another rank holds
    if weight.sharded == 1:
        if ids.layout != REPLICATE:
            raise Refusal(Fault.MISMATCH, "ids and weight are both sharded", crashes=None, blame=(0, 1))
        return (Shard(len(run.outs[0]) - 1),)
    if ids.partial or weight.partial:
        raise Refusal(Fault.PARTIAL, "an embedding looks up a partial sum", crashes=False, blame=(0, 1))
    return (ids.layout,)


def _grouped(run: Run) -> tuple[Layout, ...]:
    """`_grouped_mm(x, weight, offs)`: x [T, K] in runs of rows that end at `offs`, one for each weight of [E, K, N]."""
    undistributed(run)
    x, weight, *rest = run.operands
    if all(operand.layout == REPLICATE for operand in run.operands):
        return (REPLICATE,)
    if len(rest) != 1 or rest[0].layout != REPLICATE or (x.dims, weight.dims) != (2, 3):
        raise Refusal(Fault.UNKNOWN, "runs of rows that do not lie alike on all ranks are not known here", blame=(0, 1))
    if x.sharded == 0 or weight.sharded == 0:
        text = "rows or experts are sharded, and the runs of rows are those of the single device"
        raise Refusal(Fault.MISMATCH, text, crashes=None, blame=(0, 1) if x.sharded == 0 else (1, 0))
    return (_product(x, weight, contracted=(1, 1), kept=2, out=1),)


def _solve(run: Run) -> tuple[Layout, ...]:
    """`solve_triangular(A, B)`: A [..., N, N], B [..., N, K], linear in B."""
    undistributed(run)
    a, b = run.operands[:2]
    if a.layout == b.layout == REPLICATE:
        return (REPLICATE,)
    if run.argument(3, "left", True) is not True or a.shape[:-2] != b.shape[:-2] or len(run.operands) > 2:
        raise Refusal(Fault.UNKNOWN, "this way to solve a system is not known here", blame=(0, 1))
    if a.partial:
        raise Refusal(Fault.PARTIAL, "a system of a partial sum is solved", crashes=None, blame=(0, 1))
    if a.layout == REPLICATE and (b.partial or b.sharded == b.dims - 1):
        return (b.layout,)
    if a.layout == b.layout and a.sharded is not None and a.sharded < a.dims - 2:
        return (b.layout,)
    raise Refusal(Fault.MISMATCH, "the two sides of a system do not lie alike", crashes=None, blame=(0, 1))


RULES = {
    "linear": _linear,
    "matmul": _matmul,
    "bmm": _matmul,
    "mm": _matmul,
    "embedding": _embedding,
    "grouped_mm": _grouped,
    "solve_triangular": _solve,
}
