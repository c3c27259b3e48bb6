"""A few small calls of every operator that has a rule."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from planlang.analysis.flow.operators import RULES, pointwise, reductions


@dataclass(frozen=True)
class Length:
    """The length of a dimension of an operand, read off its shape by the code."""

    operand: int
    dim: int


@dataclass(frozen=True)
class Call:
    """An operator by its name in the table, what runs it, and its arguments, tensors among them."""

    name: str
    run: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


_source = torch.Generator().manual_seed(3)


def real(*shape: int) -> Tensor:
    """Between 0.1 and 0.9, where every function is defined and smooth."""
    return 0.1 + 0.8 * torch.rand(shape, generator=_source, dtype=torch.float64)


def flags(*shape: int) -> Tensor:
    return torch.rand(shape, generator=_source) < 0.5


def whole_numbers(*shape: int, top: int = 3) -> Tensor:
    return torch.randint(1, top, shape, generator=_source)


# What a test cannot compare: memory that nobody wrote, other devices, a flag, numbers drawn anew.
NOT_COMPARED = {"empty", "new_empty", "empty_like", "cpu", "cuda", "requires_grad", "alias"}
X, Y, ROW, COLUMN, ONE = real(4, 3, 2), real(4, 3, 2), real(2), real(4, 1, 2), real(1, 3, 1)
FLAGS, OTHER_FLAGS = flags(4, 3, 2), flags(4, 3, 2)
NUMBERS, OTHER_NUMBERS = whole_numbers(4, 3, 2), whole_numbers(4, 3, 2)
_TWO = {
    *("add", "sub", "rsub", "iadd", "isub", "radd", "mul", "rmul", "imul", "multiply", "div", "truediv", "itruediv"),
    *("true_divide", "rpow", "rdiv", "rtruediv", "maximum", "minimum", "fmod", "remainder", "mod", "floordiv"),
    *("floor_divide", "rfloordiv", "eq", "ne", "lt", "le", "gt", "ge", "atan2", "pow", "copy", "type_as"),
}
_LOGICAL = {"logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "and", "or", "xor"}
_SPECIAL: dict[str, tuple[tuple[Any, ...], ...]] = {
    "where": ((FLAGS, X, Y), (FLAGS, X, ROW)),
    "masked_fill": ((X, FLAGS, 0.5), (X, flags(3, 2), 0.5)),
    "lerp": ((X, Y, ROW), (X, Y, 0.3)),
    "addcmul": ((X, Y, COLUMN),),
    "addcdiv": ((X, Y, COLUMN),),
    "clamp": ((X, 0.3, 0.6),),
    "clip": ((X, 0.3, 0.6),),
    "clamp_min": ((X, 0.3),),
    "clamp_max": ((X, 0.3),),
    "fill": ((X, 0.5),),
    "to": ((X, torch.float32), (X, torch.int64)),
    "type": ((X, torch.float32),),
    "dropout": ((X, 0.5, False),),
    "logical_not": ((FLAGS,),),
    "bitwise_not": ((FLAGS,), (NUMBERS,)),
    "invert": ((FLAGS,),),
}


_OWN: dict[str, Callable[..., Any]] = {
    "where": torch.where,
    "get": lambda x: x.mT,
    "vector_norm": torch.linalg.vector_norm,
    "radd": operator.add,
    "rsub": lambda x, y: y - x,
    "rmul": operator.mul,
    "rdiv": lambda x, y: y / x,
    "rtruediv": lambda x, y: y / x,
    "rpow": lambda x, y: y**x,
    "rfloordiv": lambda x, y: y // x,
    "tensor": torch.tensor,
}


def function(name: str) -> Callable[..., Any]:
    """What the table means by a name."""
    if name in _OWN:
        return _OWN[name]
    for owner in (functional, torch.Tensor, torch, operator):
        for each in (name, f"__{name}__", f"{name}_") if owner is torch.Tensor else (name,):
            found = getattr(owner, each, None)
            if callable(found):
                return found
    raise LookupError(name)


def _pointwise(name: str) -> Iterator[tuple[Any, ...]]:
    if name in _SPECIAL:
        yield from _SPECIAL[name]
    elif name in _LOGICAL:
        yield FLAGS, OTHER_FLAGS
        yield FLAGS, OTHER_FLAGS[:, :1]
    elif name in _TWO:
        yield X, Y
        yield X, ROW
        yield X, COLUMN
        yield X, ONE
        if name not in ("maximum", "minimum", "atan2", "copy", "type_as"):
            yield X, 2.0
    else:
        yield (X,)


def _reductions(name: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    along = ((0, False), (1, False), (-1, True))
    if name in ("layer_norm", "rms_norm"):
        yield (X, (2,)), {}
        yield (X, (2,), ROW), {}
        yield (X, (3, 2)), {}
    elif name in ("topk",):
        yield (X, 2, 1), {}
    elif name == "flip":
        yield (X, 1), {}
        yield (X, 0, 1), {}
        yield (X, (1, 2)), {}
    elif name in ("roll", "norm", "vector_norm", "normalize", "diff"):  # the dimension comes second
        first = 1 if name in ("roll", "diff") else 2.0
        yield (X, first, 0), {}
        yield (X, first, 1), {}
        yield (X, first), {"dims" if name == "roll" else "dim": 1}
        yield (X,), {"shifts": 1} if name == "roll" else {}
    elif RULES[name] is RULES["softmax"]:
        for dim in (0, 1, -1):
            yield (X,), {"dim": dim}
    else:
        for dim, keep in along:
            yield (X, dim), {} if not keep or name == "count_nonzero" else {"keepdim": True}
        if name in ("sum", "mean", "amax", "var"):
            yield (X, (0, 2)), {}
        if name not in ("var", "std", "logsumexp"):
            yield (X,), {}


_VIEWS: dict[str, tuple[tuple[Any, ...], ...]] = {
    name: (
        *((X, (12, 2)), (X, (4, 6)), (X, (Length(0, 0), 6)), (X, (4, -1)), (real(4, 1, 6), (4, 1, 2, 3))),
        *((real(4, 6), (4, 3, 2)), (real(4, 4), (4, Length(0, 1))), (real(4, 4), (Length(0, 0), -1, 2))),
    )
    for name in ("view", "reshape")
}
_VIEWS |= {
    "flatten": ((X,), (X, 1), (X, 0, 1)),
    "unflatten": ((real(4, 6), 1, (3, 2)), (real(4, 4), 0, (2, 2))),
    "ravel": ((X,),),
    "transpose": ((X, 0, 2), (X, 1, -1)),
    "swapaxes": ((X, 0, 2),),
    "swapdims": ((X, 1, 2),),
    "permute": ((X, 2, 0, 1), (X, (1, 2, 0))),
    "movedim": ((X, 0, 2), (X, (0, 1), (1, 2))),
    "moveaxis": ((X, 2, 0),),
    "t": ((real(4, 2),),),
    "unsqueeze": ((X, 0), (X, 2), (X, -1)),
    "squeeze": ((ONE, 0), (COLUMN, 1), (COLUMN,), (COLUMN, 0)),
    "expand": ((COLUMN, 4, 3, 2), (COLUMN, Length(0, 0), 3, -1), (ROW, 3, 2)),
}
_INDEXING: dict[str, tuple[tuple[Any, ...], ...]] = {
    "getitem": (
        *((X, 0), (X, (slice(None), 1)), (X, (Ellipsis, 0)), (X, (None, slice(None), slice(0, 2)))),
        *((X, (slice(None), slice(None), None, Ellipsis)), (X, whole_numbers(5))),
        (X, (slice(None), whole_numbers(5, top=2))),
    ),
    "cat": (((X, Y), 0), ((X, Y), -1)),
    "concat": (((X, Y), 1),),
    "stack": (((X, Y), 0), ((X, Y), 2), ((X, Y), -1)),
    "pad": ((X, (1, 1)), (X, (0, 0, 1, 0)), (X, (0, 0, 0, 0, 0, 1))),
    "chunk": ((X, 2), (X, 2, -1), (X, 3, 1)),
    "split": ((X, 2), (X, 1, 1)),
    "tensor_split": ((X, 2), (X, 2, 2)),
    "unbind": ((X,), (X, 1), (X, -1)),
    "narrow": ((X, 0, 1, 2), (X, 1, 0, 2)),
    "select": ((X, 0, 1), (X, 1, 2), (X, -1, 0)),
    "repeat": ((X, 1, 2, 1), (X, 2, 1, 1), (X, 2, 1, 1, 1)),
    "tile": ((X, (1, 2, 1)),),
    "repeat_interleave": ((X, 2, 0), (X, 2, 1), (X, 2, -1)),
}
_PRODUCTS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "linear": ((X, real(6, 2)), (X, real(6, 2), real(6)), (real(4, 4), real(6, 4))),
    "matmul": (
        *((real(4, 2), real(2, 6)), (real(4, 2, 4), real(4, 4, 2)), (real(4, 2, 4), real(4, 2))),
        *((real(4, 2, 4), real(1, 4, 2)), (real(2, 4), real(3, 4, 2))),
    ),
    "bmm": ((real(4, 2, 4), real(4, 4, 2)),),
    "mm": ((real(4, 2), real(2, 6)),),
    "embedding": ((whole_numbers(4, 3, top=6), real(6, 4)),),
}
_CREATION: dict[str, tuple[tuple[Any, ...], ...]] = {
    "arange": ((3,),),
    "zeros": ((3, 2),),
    "ones": ((3, 2),),
    "full": (((3, 2), 0.5),),
    "tensor": ((0.5,),),
    "eye": ((3,),),
    "linspace": ((0.0, 1.0, 3),),
    "tril": ((real(4, 4),),),
    "triu": ((real(4, 4),),),
    "new_tensor": ((X, [0.5]),),
    "new_zeros": ((X, (3, 2)),),
    "new_ones": ((X, (3, 2)),),
    "new_full": ((X, (3, 2), 0.5),),
    "zeros_like": ((X,),),
    "ones_like": ((X,),),
    "full_like": ((X, 0.5),),
}
_HEADS = tuple((real(2, 4, 3, 2), real(2, heads, 3, 2), real(2, heads, 3, 2)) for heads in (4, 1))


def calls(name: str) -> Iterator[Call]:
    """The calls of an operator."""
    run = function(name)
    if name in pointwise.RULES:
        yield from (Call(name, run, args) for args in _pointwise(name))
        if name == "div":
            yield Call(name, run, (X, Y), (("rounding_mode", "floor"),))
            yield Call(name, run, (X, 0.3), (("rounding_mode", "trunc"),))
    elif name in reductions.RULES:
        for args, kwargs in _reductions(name):
            yield Call(name, run, args, tuple(kwargs.items()))
    elif name == "scaled_dot_product_attention":
        for q, k, v in _HEADS:
            yield Call(name, run, (q, k, v), (("enable_gqa", True),) if k.shape[1] == 1 else ())
    else:
        for args in (_VIEWS | _INDEXING | _PRODUCTS | _CREATION | {"get": ((X,),)})[name]:
            yield Call(name, run, args)
