"""Kernels with fixed shapes: a part has the bits of the part of the whole, and all is right within rounding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from planlang.runtime.numerics.fixed import FixedShapes
from planlang.runtime.numerics.tiles import SIDE, product, steady

TYPES = [torch.bfloat16, torch.float32, torch.float64]
ROUNDING = {torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-13}
SIZES = [(1, 1, 1), (3, 64, 64), (64, 96, 130), (70, 7, 200), (129, 512, 66), (16, 3072, 96), (5, 1000, 24)]


def drawn(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=source, dtype=torch.float64).to(dtype)


def near(got: Tensor, right: Tensor) -> bool:
    return bool((got.double() - right.double()).abs().max() <= ROUNDING[got.dtype] * right.double().abs().max())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "inner", "columns"), SIZES)
def test_a_slice_of_a_product_is_the_product_of_the_slice(
    rows: int, inner: int, columns: int, dtype: torch.dtype
) -> None:
    left, right, bias = (drawn(*shape, dtype=dtype) for shape in ((rows, inner), (inner, columns), (columns,)))
    whole, with_bias = product(left, right), product(left, right, bias)
    assert whole.shape == (rows, columns)
    assert near(whole, left.double() @ right.double())
    assert near(with_bias, left.double() @ right.double() + bias.double())
    for parts in (2, 3, 4, 8):
        if columns % parts:
            continue
        width = columns // parts
        for start in range(0, columns, width):
            cut = slice(start, start + width)
            assert torch.equal(product(left, right[:, cut]), whole[:, cut])
            assert torch.equal(product(left, right[:, cut], bias[cut]), with_bias[:, cut])
    for start in range(0, rows, max(rows // 2, 1)):
        assert torch.equal(product(left[start:], right), whole[start:])
        assert torch.equal(
            product(left[start:].t().contiguous().t(), right), whole[start:]
        )  # however it lies in memory


@pytest.mark.parametrize("dtype", TYPES)
def test_the_dimension_that_is_summed_over_is_not_cut(dtype: torch.dtype) -> None:
    """Two halves that are added are another sum, which a tile must not hide."""
    left, right = drawn(32, 3072, dtype=dtype), drawn(3072, 64, dtype=dtype)
    halves = product(left[:, :1536], right[:1536]) + product(left[:, 1536:], right[1536:])
    assert not torch.equal(halves, product(left, right))


@pytest.mark.parametrize("dtype", TYPES)
def test_tiles_are_independent_here(dtype: torch.dtype) -> None:
    assert all(steady(dtype, inner) for inner in (1, 31, 64, 128, 1000, 3072))


def test_what_is_not_independent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planlang.runtime.numerics.fixed.steady", lambda dtype, inner: inner != 7)
    with FixedShapes() as mode:
        drawn(2, 5, dtype=torch.float32) @ drawn(5, 2, dtype=torch.float32)
        assert not mode.unsteady
        drawn(2, 7, dtype=torch.float32) @ drawn(7, 2, dtype=torch.float32)
    assert mode.unsteady == {"7 terms in float32"}


def test_what_is_left_to_kernels_is_said() -> None:
    with FixedShapes() as mode:
        functional.conv1d(torch.randn(1, 4, 8), torch.randn(4, 1, 3), groups=4)
    assert mode.left == {"convolution"}


ELEMENTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "inverse_root": lambda x: (x * x + 1).pow(-0.5),
    "rsqrt": lambda x: torch.rsqrt(x * x + 1),
    "exp": torch.exp,
    "scaled_sum": lambda x: torch.add(x, x * x, alpha=0.3),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_part_of_an_elementwise_result(name: str, dtype: torch.dtype) -> None:
    function = ELEMENTWISE[name]
    x = drawn(40, 130, dtype=dtype)
    with FixedShapes():
        whole = function(x)
        for columns in (1, 13, 65):
            assert torch.equal(function(x[:, :columns]), whole[:, :columns])
            assert torch.equal(function(x[:, columns:].contiguous()), whole[:, columns:])
    assert near(whole, function(x.double()))


def test_kernels_alone_are_not_so() -> None:
    """What whole vectors are for: the test above can fail."""
    x = drawn(200_000, dtype=torch.float32)
    whole = functional.silu(x)
    with FixedShapes():
        fixed = functional.silu(x)
    assert any(not torch.equal(functional.silu(x[:count]), whole[:count]) for count in range(1, 70))
    assert near(fixed, whole)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dims", [(0,), (0, 1), (2,), (-1,), (0, 2), ()])
@pytest.mark.parametrize("keep", [False, True])
def test_sums_and_means(dims: tuple[int, ...], keep: bool, dtype: torch.dtype) -> None:
    x = drawn(6, 9, 40, dtype=dtype)
    with FixedShapes():
        found, mean = x.sum(dims, keepdim=keep), x.mean(dims, keepdim=keep)
        part = x[..., :10].sum(dims, keepdim=keep)
    assert found.shape == x.double().sum(dims, keepdim=keep).shape
    assert near(found, x.double().sum(dims, keepdim=keep))
    assert near(mean, x.double().mean(dims, keepdim=keep))
    if dims in ((0,), (0, 1)):
        assert torch.equal(part, found[..., :10])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("heads", "key_heads"), [(8, 8), (8, 4)])
def test_attention_and_its_gradients_by_heads(heads: int, key_heads: int, dtype: torch.dtype) -> None:
    def run(parts: int, rank: int) -> list[Tensor]:
        tensors = [
            drawn(2, count, 70, 16, dtype=dtype, seed=seed).chunk(parts, 1)[rank].contiguous().requires_grad_()
            for seed, count in enumerate((heads, key_heads, key_heads))
        ]
        query, key, value = tensors
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=heads != key_heads)
        out.backward(drawn(2, heads, 70, 16, dtype=dtype, seed=9).chunk(parts, 1)[rank].contiguous())
        return [out.detach(), *(each.grad for each in tensors if each.grad is not None)]

    plain = run(1, 0)
    with FixedShapes():
        whole = run(1, 0)
        cut = [run(4, rank) for rank in range(4)]
    for number, each in enumerate(whole):
        assert near(each, plain[number])
        assert torch.equal(torch.cat([part[number] for part in cut], 1), each)


@pytest.mark.parametrize("dtype", TYPES)
def test_gradients_of_a_layer_by_columns(dtype: torch.dtype) -> None:
    """Rows of a weight's gradient, and of a bias's, are those of the whole; also on the first rank's part alone."""

    def run(columns: slice) -> tuple[Tensor, Tensor, Tensor]:
        weight, bias = (drawn(*shape, dtype=dtype)[columns].clone() for shape in ((96, 200), (96,)))
        layer = nn.Linear(200, len(weight), dtype=dtype)
        layer.weight.data, layer.bias.data = weight, bias
        out = layer(drawn(3, 41, 200, dtype=dtype))
        out.backward(drawn(3, 41, 96, dtype=dtype)[..., columns])
        assert layer.weight.grad is not None
        assert layer.bias.grad is not None
        return out.detach(), layer.weight.grad, layer.bias.grad

    plain = run(slice(None))
    with FixedShapes():
        whole = run(slice(None))
        for start in (0, 24, 72):
            cut = slice(start, start + 24)
            out, weight, bias = run(cut)
            assert torch.equal(out, whole[0][..., cut])
            assert torch.equal(weight, whole[1][cut])
            assert torch.equal(bias, whole[2][cut])
    assert all(near(each, other) for each, other in zip(whole, plain, strict=True))


def test_batched_products() -> None:
    left, right = drawn(4, 5, 70, dtype=torch.float32), drawn(4, 70, 9, dtype=torch.float32)
    with FixedShapes():
        whole = torch.bmm(left, right)
        added = torch.baddbmm(whole, left, right, beta=2, alpha=3)
        vector = left[0] @ right[0, :, 0]
        assert torch.equal(torch.bmm(left[1:3], right[1:3]), whole[1:3])
        assert torch.bmm(left[:0], right[:0]).shape == (0, 5, 9)
    assert near(whole, left.double() @ right.double())
    assert near(added, 2 * whole.double() + 3 * (left.double() @ right.double()))
    assert near(vector, whole[0, :, 0])


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with FixedShapes():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    assert SIDE % 64 == 0
