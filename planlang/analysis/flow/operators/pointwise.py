"""Operators that work number by number, with broadcasting."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import REPLICATE, Refusal, Run
from planlang.layout import Layout, Partial, Shard
from planlang.model.graph import Other

# By how a partial sum fares in them. `SUM`: partial with partial. `PRODUCT`: partial with a whole tensor or a number.
# `FIRST`: the first operand may be partial. The others take no partial sum.
_SUM = ("add", "sub", "rsub", "iadd", "isub", "radd")
_PRODUCT = ("mul", "rmul", "imul", "multiply")
_FIRST = (
    *("neg", "div", "truediv", "itruediv", "true_divide", "to", "type_as", "float", "double", "half", "bfloat16"),
    *("type", "contiguous", "clone", "detach", "dropout", "alias", "cpu", "cuda", "requires_grad", "positive"),
)
_OTHERS = (
    *("silu", "gelu", "relu", "relu6", "leaky_relu", "elu", "selu", "mish", "softplus", "softsign", "hardtanh"),
    *("sigmoid", "logsigmoid", "tanh", "exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt", "square", "pow"),
    *("rpow", "reciprocal", "rdiv", "rtruediv", "sin", "cos", "tan", "erf", "erfinv", "abs", "sign", "floor", "ceil"),
    *("round", "trunc", "clamp", "clip", "clamp_min", "clamp_max", "where", "masked_fill", "maximum", "minimum"),
    *("fmod", "remainder", "mod", "floordiv", "floor_divide", "rfloordiv", "eq", "ne", "lt", "le", "gt", "ge"),
    *("logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not", "and"),
    *("or", "xor", "invert", "isnan", "isinf", "isfinite", "nan_to_num", "bool", "int", "long", "lerp", "addcmul"),
    *("addcdiv", "atan2", "hardswish", "hardsigmoid", "sinh", "cosh", "zero", "fill", "copy", "logit", "exp2"),
)
# One operation of the floating-point standard a number, or none: all kernels agree on its bits.
EXACT = frozenset(
    (
        *(*_SUM, *_PRODUCT, *_FIRST),
        *("relu", "relu6", "abs", "sign", "floor", "ceil", "round", "trunc", "clamp", "clip", "clamp_min", "clamp_max"),
        *("sqrt", "square", "reciprocal", "rdiv", "rtruediv", "where", "masked_fill", "maximum", "minimum", "floordiv"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "invert", "logical_and", "logical_or", "logical_not"),
        *("isnan", "isinf", "isfinite", "nan_to_num", "bool", "int", "long", "zero", "fill", "copy", "hardtanh"),
    )
)
_WHOLE = ("torch.int", "torch.uint", "torch.long", "torch.short", "torch.bool")


def _run(run: Run) -> tuple[Layout, ...]:
    layout = broadcast(run, _partial(run))
    return tuple(layout for _ in run.outs)


def broadcast(run: Run, partial: Layout | None) -> Layout:
    """The layout of operands that are broadcast against each other; `partial` where a partial sum goes through."""
    dims = max((operand.dims for operand in run.operands), default=0)
    cut: dict[int, int] = {}  # the dimension of the result that an operand cuts
    for index, operand in enumerate(run.operands):
        if operand.sharded is not None:
            cut[index] = operand.sharded + dims - operand.dims
    if not cut:
        return partial or REPLICATE
    if partial:
        raise Refusal(Fault.PARTIAL, "a partial sum meets a sharded tensor", blame=(*_partials(run), *cut))
    if len(set(cut.values())) > 1:
        raise Refusal(Fault.MISMATCH, "its inputs are sharded along different dimensions", blame=tuple(cut))
    first, dim = next(iter(cut.items()))
    length = run.operands[first].shape[dim - dims + run.operands[first].dims]
    for index, operand in enumerate(run.operands):
        own = dim - (dims - operand.dims)
        if index in cut:
            if operand.shape[own] != length:
                text = "a dimension of size 1 is sharded and broadcast against a larger one"
                raise Refusal(Fault.MISMATCH, text, blame=(index, first))
        elif own >= 0 and operand.shape[own] != 1:
            text = f"one input is sharded along dimension {dim} and another is whole there"
            raise Refusal(Fault.MISMATCH, text, crashes=length // run.ranks > 1 or None, blame=(first, index))
    return Shard(dim)


def _partials(run: Run) -> tuple[int, ...]:
    return tuple(index for index, operand in enumerate(run.operands) if operand.partial)


def _partial(run: Run) -> Layout | None:
    """The partial layout of the result, where operands are partial."""
    found = _partials(run)
    if not found:
        return None
    name = run.name.strip("_")
    layouts = {run.operands[index].layout for index in found}
    rest = [index for index in range(len(run.operands)) if index not in found]
    sums = all(isinstance(layout, Partial) and layout.op in ("sum", "avg") for layout in layouts)
    if len(layouts) == 1 and sums:
        layout = next(iter(layouts))
        given = (*run.op.args, *(each for key, each in run.op.kwargs if key != "alpha"))
        numbers = [each for each in given if isinstance(each, int | float) and not isinstance(each, bool)]
        if name in _FIRST and found == (0,) and not _rounds(run):
            return layout
        if name in _SUM and not rest and not any(numbers):
            return layout
        if name in _PRODUCT and len(found) == 1:
            return layout
    other = f"{_verb(name)} a partial sum"
    text = "it adds a partial sum to a whole tensor" if name in _SUM else other
    raise Refusal(Fault.PARTIAL, text, crashes=False, blame=(*found, *rest))


def _rounds(run: Run) -> bool:
    """Whether a conversion or division makes whole numbers, which no sum of terms comes through."""
    given = (*run.op.args, *(each for _, each in run.op.kwargs))
    whole = any(isinstance(each, Other) and each.text.startswith(_WHOLE) for each in given)
    return whole or run.argument(2, "rounding_mode") in ("floor", "trunc")


def _verb(name: str) -> str:
    return "it multiplies" if name in _PRODUCT else f"`{name}` is not linear, and it is applied to"


RULES = dict.fromkeys((*_SUM, *_PRODUCT, *_FIRST, *_OTHERS), _run)
