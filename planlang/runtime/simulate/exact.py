"""Keeps float64 where a model's code goes down to float32.

Norms and softmax of transformers compute in float32 whatever they are given. What rounds so coarsely hides what differs
by less, and makes a last bit in float64 one in float32: sums of gradients in another order, as each rank has its own,
would be off by 1e-7 and no plan would be to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_TAKING_A_TYPE = ((Tensor, "to"), (Tensor, "type"), (Tensor, "softmax"), (torch, "softmax"), (functional, "softmax"))


@contextmanager
def float64_kept(wanted: bool = True) -> Iterator[None]:
    """Inside, a tensor of float64 stays one when it is asked to become float32.

    These are torch's own functions, replaced: a mode of torch's would not be there in the threads of a backward pass.

    Args:
        wanted: else nothing is changed.
    """
    if not wanted:
        yield
        return
    whole = [(owner, name, getattr(owner, name)) for owner, name in (*_TAKING_A_TYPE, (Tensor, "float"))]
    for owner, name, function in whole:
        setattr(owner, name, _kept(function, asks=name == "float"))
    try:
        yield
    finally:
        for owner, name, function in whole:
            setattr(owner, name, function)


def _kept(function: Callable[..., Any], *, asks: bool) -> Callable[..., Any]:
    """The function, for float64 without any float32 among its arguments.

    Args:
        function: takes the tensor first.
        asks: whether it asks for float32 without an argument that says so.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Tensor) and args[0].dtype is torch.float64:
            if asks:
                return args[0]
            args = tuple(_wide(each) for each in args)
            kwargs = {key: _wide(each) for key, each in kwargs.items()}
        return function(*args, **kwargs)

    return call


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
