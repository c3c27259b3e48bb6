"""Attention in blocks of heads: which modules it is for, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.functional import scaled_dot_product_attention

from planlang.runtime.invariant import InvariantAttention
from planlang.runtime.simulate import local


class Attention(nn.Module):
    """Queries, keys and values of [1, heads, 5, 4] that are one and the same."""

    def __init__(self, attend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x)


def styled(attend: Callable[[Tensor], Tensor], heads: int) -> Tensor:
    """What such a module returns under the style, with eight blocks on two ranks."""
    module, x = Attention(attend), torch.randn(1, heads, 5, 4, generator=torch.Generator().manual_seed(0))
    with local.ranks(2) as mesh:
        parallelize_module(module, mesh, InvariantAttention(blocks=8))
        return local.of_each_rank(module(local.copies(x, 2)), 2)[0]


def masked(x: Tensor) -> Tensor:
    mask = torch.arange(x.shape[1] * 25).remainder(3).bool().view(1, x.shape[1], 5, 5)
    return scaled_dot_product_attention(x, x, x, attn_mask=mask)


def repeated(x: Tensor, *sizes: int | tuple[int, ...]) -> Tensor:
    twice = x[:, :, None].expand(*sizes).flatten(1, 2)  # type: ignore[arg-type]
    return torch.matmul(torch.matmul(twice, twice.transpose(2, 3)), twice)


@pytest.mark.parametrize(
    "attend",
    [
        lambda x: scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: scaled_dot_product_attention(query=x, key=x, value=x, scale=0.3),
        lambda x: torch.matmul(torch.matmul(x, x.transpose(2, 3)).softmax(-1), x),
        lambda x: (x @ x.transpose(2, 3)) @ x,
        masked,
        lambda x: repeated(x, 1, 8, 2, 5, 4),
        lambda x: repeated(x, (-1, -1, 2, -1, -1)),
        lambda x: repeated(x[:, :1], 1, 8, 2, 5, 4),
    ],
    ids=["causal", "by name", "matmul", "operator", "a mask for each head", "repeated", "by a tuple", "one for all"],
)
def test_it_computes_what_the_module_computes(attend: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(1, 8, 5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(styled(attend, 8), attend(x))


def test_a_module_that_computes_no_attention_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="calls neither `scaled_dot_product_attention` nor `matmul`"):
        styled(torch.relu, 8)


def test_blocks_that_do_not_divide_the_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="4 blocks on a rank do not divide its 6 heads"):
        styled(lambda x: scaled_dot_product_attention(x, x, x), 6)
