"""Other operators whose numbers can depend on the size of what they are called with, made independent of it.

Kernels compute most elements in vectors and the rest one by one, with functions that round otherwise; sums over other
than the last dimension take several columns at a time; and attention picks its blocks by the number of heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

VECTOR = 64  # elements: a multiple of what kernels take at once


def elementwise(function: Callable[..., Tensor], arguments: Sequence[Any], options: dict[str, Any]) -> Tensor:
    """An elementwise function, computed in whole vectors.

    Args:
        function: it returns one tensor, of its arguments' shapes broadcast to one.
        arguments: tensors and what else it takes.
        options: its keyword arguments, none of them a tensor.
    """
    places = [i for i, each in enumerate(arguments) if isinstance(each, Tensor) and each.ndim]
    if not places:
        return function(*arguments, **options)
    whole = torch.broadcast_tensors(*(arguments[i] for i in places))  # type: ignore[no-untyped-call]
    shape, count = whole[0].shape, whole[0].numel()
    taken = list(arguments)
    for place, each in zip(places, whole, strict=True):
        taken[place] = each.new_ones(-(-count // VECTOR) * VECTOR)
        taken[place][:count] = each.reshape(-1)
    return function(*taken, **options)[:count].view(shape)


def reduced(function: Callable[..., Tensor], tensor: Tensor, dims: Sequence[int], keep: bool, **options: Any) -> Tensor:
    """A sum or mean of terms that lie side by side.

    Args:
        function: `torch.sum` or `torch.mean`.
        tensor: of any shape.
        dims: which of its dimensions are summed over; all of them where none is named.
        keep: whether they stay, of size 1.
        options: what else the function takes: `dtype`.
    """
    gone = sorted({dim % max(tensor.ndim, 1) for dim in dims} or set(range(tensor.ndim)))
    stay = [dim for dim in range(tensor.ndim) if dim not in gone]
    outer = [tensor.shape[dim] for dim in stay]
    count, inner = math.prod(outer), math.prod(tensor.shape[dim] for dim in gone)
    lines = tensor.new_zeros(count + 1, inner)  # never one line alone, which would be another kernel's
    lines[:count] = tensor.permute(*stay, *gone).reshape(count, inner)
    found = function(lines, 1, **options)[:count]
    return found.view([1 if dim in gone else size for dim, size in enumerate(tensor.shape)] if keep else outer)


def attention(function: Callable[..., Any], tensors: Sequence[Tensor], options: Any) -> Any:
    """Attention or its gradients, of one key head and its query heads after the other.

    Args:
        function: `_scaled_dot_product_flash_attention_for_cpu` or its backward.
        tensors: query, key and value, [batch, heads, length, width]; for the gradients after that of the result, and
            followed by result and logsumexp. Heads are dimension 1 of all of them, and there are fewest key heads.
        options: a pair of the other positional arguments and the keyword arguments.
    """
    others, keywords = options
    groups = min(each.shape[1] for each in tensors)
    cut = zip(*([part.contiguous() for part in each.chunk(groups, 1)] for each in tensors), strict=True)
    parts = [function(*each, *others, **keywords) for each in cut]
    return tuple(torch.cat(each, 1) for each in zip(*parts, strict=True))
