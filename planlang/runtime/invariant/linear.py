"""Linear layers in blocks: every product has a shape that does not depend on the number of ranks.

Each block is one `mm` of its own. A batched product would be fewer calls, but its kernel may add in another order where
the batch is larger (measured: 42 of 120 float32 shapes and 18 of 120 bfloat16 shapes on a CPU with AVX-512 and AMX).
Blocks are read from and written into slices of the whole tensors where each begins at a whole cache line, which changed
no bits and copies nothing; narrower ones, which did change bits, are copied (`joining.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from planlang.runtime.invariant import settings as kept
from planlang.runtime.invariant.joining import operands, write
from planlang.runtime.invariant.settings import LAST, REPLICATE, Settings
from planlang.runtime.invariant.shared import Terms, share
from planlang.runtime.invariant.sums import tree_all_reduce, tree_sum


def columns(module: nn.Linear, x: Tensor) -> Tensor:
    """The forward of a linear layer whose output features are split: it needs no sum across ranks.

    Args:
        module: with a weight `Shard(0)` and maybe a bias `Shard(0)`.
        x: [..., in_features].
    """
    settings = kept.of(module)
    whole, terms, token = share(x, settings)
    weight, bias = kept.local(module.weight), None if module.bias is None else kept.local(module.bias)
    whole, weight, bias = kept.cast(whole.detach(), weight, bias)  # type: ignore[assignment]
    y = _Columns.apply(whole, weight, bias, token, terms, settings.own)  # type: ignore[no-untyped-call]
    return kept.left(y, settings, LAST)


def rows(module: nn.Linear, x: Tensor) -> Tensor:
    """The forward of a linear layer whose input features are split: the blocks' products are added in a tree.

    Args:
        module: with a weight `Shard(1)` and maybe a replicated bias.
        x: [..., in_features], of which each rank has its part.
    """
    settings = kept.of(module)
    x = kept.arrived(x, settings, LAST)
    weight, bias = kept.local(module.weight), None if module.bias is None else kept.local(module.bias)
    x, weight, bias = kept.cast(x, weight, bias)  # type: ignore[assignment]
    y = _Rows.apply(x, weight, bias, settings)  # type: ignore[no-untyped-call]
    return kept.left(y, settings, REPLICATE)


class _Columns(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, token: Tensor | None, terms: Terms, own: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.terms, ctx.own, ctx.token = terms, own, token
        ctx.number = terms.join() if token is not None else -1
        y = x.new_empty(*x.shape[:-1], weight.shape[0])
        flat, out = _flat(x), _flat(y)
        write(out, own, 1, ((flat, block.t()) for block in operands(weight, own, 0)))
        if bias is not None:
            out.add_(bias)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        flat = _flat(gradient)
        if ctx.needs_input_grad[3]:
            ctx.terms.leave(ctx.number, flat, weight)
        by_weight = _by_weight(flat, _flat(x), ctx.own) if ctx.needs_input_grad[1] else None
        by_bias = torch.cat([part.sum(0) for part in operands(flat, ctx.own, 1)]) if ctx.needs_input_grad[2] else None
        token = gradient.new_zeros(()) if ctx.needs_input_grad[3] else None
        return None, by_weight, by_bias, token, None, None


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, settings: Settings) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.own = settings.own
        pairs = zip(operands(_flat(x), ctx.own, 1), operands(weight, ctx.own, 1), strict=True)
        total = tree_sum((torch.mm(part, block.t()) for part, block in pairs), settings.dtype)
        y = tree_all_reduce(total, settings.mesh).to(x.dtype)
        if bias is not None:
            y = y.add_(bias)
        # A view would be one of a tensor that nobody else has, and FSDP2 warns of views.
        made: Tensor = torch.ops.aten._unsafe_view(y, [*x.shape[:-1], weight.shape[0]])
        return made

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        flat, own = _flat(gradient), ctx.own
        by_x = by_weight = None
        if ctx.needs_input_grad[0]:
            by_x = torch.empty_like(x, memory_format=torch.contiguous_format)
            write(_flat(by_x), own, 1, ((flat, block) for block in operands(weight, own, 1)))
        if ctx.needs_input_grad[1]:
            by_weight = torch.empty_like(weight, memory_format=torch.contiguous_format)
            write(by_weight, own, 1, ((flat.t(), block) for block in operands(_flat(x), own, 1)))
        by_bias = flat.sum(0) if ctx.needs_input_grad[2] else None
        return by_x, by_weight, by_bias, None


def _by_weight(gradient: Tensor, x: Tensor, own: int) -> Tensor:
    """The weight's gradient, block by block: [a rank's columns, width of the input]."""
    made = gradient.new_empty(gradient.shape[1], x.shape[1])
    write(made, own, 0, ((block.t(), x) for block in operands(gradient, own, 1)))
    return made


def _flat(x: Tensor) -> Tensor:
    """Tokens in rows: [tokens, features], without gaps between a row's numbers."""
    flat = x.reshape(-1, x.shape[-1])
    return flat if flat.stride(-1) == 1 else flat.contiguous()
