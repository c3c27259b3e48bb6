"""Operators that look along a dimension: sums, means, softmax, norms, sorting."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import Operand, Refusal, Run
from planlang.layout import Layout, Partial, Shard

_REDUCED = ("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "var", "std")
_REDUCED_TOO = ("logsumexp", "norm", "count_nonzero", "nansum", "nanmean", "median", "vector_norm")
_ALONG = ("softmax", "log_softmax", "cumsum", "cumprod", "sort", "argsort", "topk", "flip", "roll", "normalize", "diff")
_LINEAR = {"sum": "sum", "mean": "avg"}
_SECOND = ("norm", "vector_norm", "topk", "roll", "normalize", "diff")  # the dimension is the second argument
_DEFAULT = {"normalize": (1,), "flip": None, "roll": None}  # where none is named: `None` all, else the last


def _dims(run: Run, operand: Operand, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """The dimensions that it looks along; `default`, or all, where none is named."""
    name = run.name.strip("_")
    position = 2 if name in _SECOND else 1
    keyword = "dims" if name in ("flip", "roll") else "dim"
    given = run.argument(position, keyword)
    if name == "flip" and isinstance(given, int):
        given = run.op.args[1:]
    found = run.integers(given) if given is not None and not isinstance(given, bool) else None
    return tuple(dim % operand.dims for dim in found or default or range(operand.dims))


def _reduce(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    name = run.name.strip("_")
    if len(run.operands) > 1:  # `max` of two tensors, and the like
        raise Refusal(Fault.UNKNOWN, f"`{name}` of several tensors is not known here")
    if operand.partial:
        if name in _LINEAR and isinstance(operand.layout, Partial) and operand.layout.op in ("sum", "avg"):
            return tuple(operand.layout for _ in run.outs)
        raise Refusal(Fault.PARTIAL, f"`{name}` is taken of a partial sum", crashes=False, blame=(0,))
    cut = operand.sharded
    if cut is None:
        return tuple(operand.layout for _ in run.outs)
    dims = _dims(run, operand)
    if cut not in dims:
        keeps = len(run.outs[0]) == operand.dims
        layout = Shard(cut if keeps else cut - sum(dim < cut for dim in dims))
        return tuple(layout for _ in run.outs)
    if name == "sum":
        return tuple(Partial() for _ in run.outs)
    if name == "mean" and operand.shape[cut] % run.ranks == 0:
        return tuple(Partial("avg") for _ in run.outs)
    text = f"`{name}` is taken along dimension {cut}, of which each rank has only a part"
    raise Refusal(Fault.REDUCED, text, crashes=False, blame=(0,))


def _along(run: Run) -> tuple[Layout, ...]:
    operand = run.operands[0]
    name = run.name.strip("_")
    if operand.partial:
        raise Refusal(Fault.PARTIAL, f"`{name}` is taken of a partial sum", crashes=False, blame=(0,))
    dims = _dims(run, operand, _DEFAULT.get(name, (-1,)))
    if operand.sharded in dims or any(other.layout != operand.layout for other in run.operands[1:]):
        text = f"`{name}` is taken along dimension {operand.sharded}, of which each rank has only a part"
        raise Refusal(Fault.REDUCED, text, crashes=False, blame=(0,))
    return tuple(operand.layout for _ in run.outs)


def _norm(run: Run) -> tuple[Layout, ...]:
    """`layer_norm(x, shape, weight, bias)` and `rms_norm`: the last dimensions are looked along."""
    operand, *weights = run.operands
    if operand.partial:
        raise Refusal(Fault.PARTIAL, f"`{run.name}` is taken of a partial sum", crashes=False, blame=(0,))
    shape = run.integers(run.argument(1, "normalized_shape")) or (0,)
    cut = operand.sharded
    if cut is not None and cut >= operand.dims - len(shape):
        text = f"`{run.name}` is taken along dimension {cut}, of which each rank has only a part"
        raise Refusal(Fault.REDUCED, text, crashes=True, blame=(0,))
    for index, weight in enumerate(weights, 1):
        if weight.sharded is not None or weight.partial:
            raise Refusal(Fault.MISMATCH, "the norm's weight is not whole", crashes=True, blame=(index, 0))
    return tuple(operand.layout for _ in run.outs)


RULES = (
    dict.fromkeys((*_REDUCED, *_REDUCED_TOO), _reduce)
    | dict.fromkeys(_ALONG, _along)
    | dict.fromkeys(("layer_norm", "rms_norm"), _norm)
)
