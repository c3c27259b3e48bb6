"""Attention in blocks of heads.

Heads do not meet in attention, so nothing crosses ranks. But a kernel that is given fewer heads may share its work
among threads in another way, or be another kernel, and so add up in another order. Here each call is for one block of
heads, whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from planlang.runtime.invariant import settings as kept
from planlang.runtime.invariant.joining import cut, joined

_HEADS = 1  # of [batch, heads, length, width]
_REPEATED = 5  # dimensions of heads that are about to be repeated: [batch, heads, times, length, width]
_PRODUCTS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)


def attention(module: nn.Module, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The forward of a module that computes attention: its own code, with the products of heads block by block.

    Args:
        module: calls `scaled_dot_product_attention`, or `matmul`, on a rank's heads: [batch, heads, length, width].
        own: the forward of its class.
        args: what the module takes.
        kwargs: what the module takes by name.

    Raises:
        ValueError: a rank's blocks do not divide its heads.
        NotImplementedError: the module calls neither.
    """
    blocks = _Blocks(kept.of(module).own)
    with blocks:
        out = own(*args, **kwargs)
    if not blocks.calls:
        raise NotImplementedError(
            f"{type(module).__name__} calls neither `scaled_dot_product_attention` nor `matmul` on heads: "
            "InvariantAttention is for the attention implementations `sdpa` and `eager`"
        )
    return out


class _Blocks(TorchFunctionMode):
    """Takes calls that compute with heads apart.

    Attributes:
        own: how many blocks a rank has.
        calls: how many were taken apart.
    """

    def __init__(self, own: int) -> None:
        super().__init__()
        self.own, self.calls = own, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            self.calls += 1
            return self._attend(func, *args, **given)
        if func in _PRODUCTS and not given and all(each.ndim == 4 for each in args):
            self.calls += 1
            return self._by_block(func, args)
        if func is torch.Tensor.expand and not given and args[0].ndim == _REPEATED:
            return self._repeat(*args)
        return func(*args, **given)

    def _repeat(self, heads: Tensor, *sizes: Any) -> Tensor:
        """Key or value heads once for each query head of theirs; their gradient is a sum over those."""
        wanted = list(sizes if len(sizes) == _REPEATED else sizes[0])
        if len(wanted) != _REPEATED or wanted[_HEADS] not in (-1, heads.shape[_HEADS]):
            return heads.expand(*sizes)
        wanted[_HEADS] = -1
        return self._by_block(lambda own: own.expand(*wanted), (heads,))

    def _attend(
        self,
        func: Callable[..., Tensor],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        if attn_mask is None or attn_mask.ndim < 4 or attn_mask.shape[_HEADS] == 1:
            return self._by_block(lambda *own: func(*own, attn_mask, *args, **kwargs), (query, key, value))
        return self._by_block(lambda *own: func(*own, *args, **kwargs), (query, key, value, attn_mask))

    def _by_block(self, func: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> Tensor:
        """The results for each block of heads, one behind the other; blocks lie in memory alike at any number."""
        for tensor in tensors:
            if tensor.shape[_HEADS] % self.own:
                raise ValueError(f"{self.own} blocks on a rank do not divide its {tensor.shape[_HEADS]} heads")
        parts = (cut(tensor, self.own, _HEADS) for tensor in tensors)
        return joined([func(*block) for block in zip(*parts, strict=True)], _HEADS)
