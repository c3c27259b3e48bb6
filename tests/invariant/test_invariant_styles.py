"""One style at a time: what layers share, what autograd can do with them, what is refused, and the order of sums."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from invariant_runs import same
from torch import Tensor, nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.functional import silu
from torch.utils.checkpoint import checkpoint

from planlang.runtime.invariant import (
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
    sums,
)
from planlang.runtime.invariant.sums import tree_sum
from planlang.runtime.simulate import local
from planlang.runtime.simulate.run import whole

RANKS = (1, 2, 4, 8)
WIDTH = 64
Found = dict[str, Tensor]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Attention in float32 shares a product among threads where a rank has one head, which changes its bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Siblings(nn.Module):
    """Three layers that are given one tensor, and one that adds up again."""

    def __init__(self, *, bias: bool = True) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, 256, bias=bias) for _ in range(3))
        self.o = nn.Linear(256, WIDTH, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.5
        return self.o(silu(self.q(x)) * self.k(x) + self.v(x))


def siblings() -> Siblings:
    torch.manual_seed(0)
    return Siblings()


def styled(model: nn.Module, mesh: Any, **options: Any) -> None:
    for name in ("q", "k", "v"):
        parallelize_module(model.get_submodule(name), mesh, InvariantColwiseParallel(**options))
    parallelize_module(model.get_submodule("o"), mesh, InvariantRowwiseParallel())


def simulated(tp: int, use: Callable[[Siblings, Tensor], Found]) -> list[Found]:
    """What `use` finds with a model and an input, on each rank."""
    model, x = siblings(), torch.randn((3, 17, WIDTH), generator=torch.Generator().manual_seed(1))
    with local.ranks(tp) as mesh:
        local.spread(model, tp)
        styled(model, mesh)
        found = use(model, local.copies(x, tp).requires_grad_())
        ranks = {name: local.of_each_rank(whole(each.detach()), tp) for name, each in found.items()}
        return [{name: each[rank].clone() for name, each in ranks.items()} for rank in range(tp)]


def gradients(model: Siblings, x: Tensor) -> Found:
    made = {name: each.grad for name, each in model.named_parameters()} | {"x": x.grad}
    return {name: each for name, each in made.items() if each is not None}


def once(model: Siblings, x: Tensor) -> Found:
    y = model(x)
    y.square().sum().backward()
    return gradients(model, x) | {"y": y}


def retained(model: Siblings, x: Tensor) -> Found:
    y = model(x)
    y.square().sum().backward(retain_graph=True)
    model.zero_grad()
    x.grad = None
    y.square().sum().backward()
    return gradients(model, x) | {"y": y}


def weights_first(model: Siblings, x: Tensor) -> Found:
    y = model(x)
    alone = torch.autograd.grad(y.square().sum(), list(model.parameters()), retain_graph=True)
    y.square().sum().backward()
    found = gradients(model, x)
    names = [name for name, _ in model.named_parameters()]
    return found | {"y": y} | {f"alone {name}": each for name, each in zip(names, alone, strict=True)}


def not_reentrant(model: Siblings, x: Tensor) -> Found:
    y = checkpoint(model, x, use_reentrant=False)
    y.square().sum().backward()
    return gradients(model, x) | {"y": y}


def reentrant(model: Siblings, x: Tensor) -> Found:
    y = checkpoint(model, x, use_reentrant=True)
    y.square().sum().backward()
    return gradients(model, x) | {"y": y}


def without_gradients_first(model: Siblings, x: Tensor) -> Found:
    with torch.no_grad():
        quiet = model(x)
    return once(model, x) | {"quiet": quiet}


def differing(right: Found, got: Found) -> list[str]:
    named = {name: right["y" if name == "quiet" else name.removeprefix("alone ")] for name in got}
    return [name for name, each in got.items() if not same(named[name], each)]


@pytest.mark.parametrize("tp", RANKS)
@pytest.mark.parametrize("use", [once, retained, weights_first, not_reentrant, reentrant, without_gradients_first])
def test_however_autograd_comes_the_bits_are_the_same(use: Callable[[Siblings, Tensor], Found], tp: int) -> None:
    (right,) = simulated(1, once)
    assert len(right) == 10
    for got in simulated(tp, use):
        assert got.keys() >= right.keys()
        assert differing(right, got) == []


def test_layers_that_share_an_input_share_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("all_to_all_single", "all_gather_single"):
        function = getattr(sums.collectives, name)

        def call(*args: Any, of: Callable[..., Tensor] = function, named: str = name, **kwargs: Any) -> Tensor:
            calls.append(named)
            return of(*args, **kwargs)

        monkeypatch.setattr(sums.collectives, name, call)

    def counted(model: Siblings, x: Tensor) -> Found:
        calls.clear()
        y = model(x)
        assert calls == ["all_to_all_single", "all_gather_single"]  # the sum of `o`
        calls.clear()
        y.square().sum().backward()
        assert calls == ["all_to_all_single", "all_gather_single"]  # one for the input of `q`, `k` and `v`
        return gradients(model, x)

    simulated(2, counted)


@pytest.mark.parametrize("layout", [Replicate(), Shard(1)], ids=str)
@pytest.mark.parametrize("tp", [1, 2])
def test_a_sibling_sees_what_was_written_to_the_input(layout: Any, tp: int) -> None:
    model = siblings()
    x = torch.randn((2, 4, WIDTH))
    right = model.q(x).detach(), model.k(x + 1).detach()
    with local.ranks(tp) as mesh, torch.no_grad():
        local.spread(model, tp)
        styled(model, mesh, input_layouts=layout, output_layouts=Replicate())
        given = local.copies(x, tp)
        if isinstance(layout, Shard):
            given = given.chunk(tp, 1)[0] if tp == 1 else local.by_rank(tp, lambda rank: x.chunk(tp, 1)[rank].clone())
        first = model.q(given)
        given.add_(1)
        second = model.k(given)
        ranks = [local.of_each_rank(each, tp) for each in (first, second)]
    for got, wanted in zip(ranks, right, strict=True):
        for each in got:
            torch.testing.assert_close(each, wanted)


@pytest.mark.parametrize("tp", [1, 2])
def test_writing_to_the_input_before_the_backward_pass_is_an_error(tp: int) -> None:
    def use(model: Siblings, x: Tensor) -> Found:
        given = x * 1.0
        first = model.q(given)
        given.add_(1)
        (first.sum() + model.k(given).sum()).backward()
        return {}

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        simulated(tp, use)


@pytest.mark.parametrize("tp", [1, 2])
def test_a_copy_of_a_model_is_a_model_of_its_own(tp: int) -> None:
    def use(model: Siblings, x: Tensor) -> Found:
        other = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            zero = model(x)
        return once(other, x) | {"zero": zero}

    (right,) = simulated(1, once)
    for got in simulated(tp, use):
        assert bool((got.pop("zero") == 0).all())
        assert differing(right, got) == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("tp", RANKS)
def test_zeros_of_an_embedding_keep_their_sign(tp: int, dtype: torch.dtype) -> None:
    assert signs(InvariantRowwiseParallel(input_layouts=Replicate()), tp, dtype)
    assert signs(InvariantColwiseParallel(output_layouts=Replicate()), tp, dtype)


def test_torchs_style_loses_the_sign_of_zeros() -> None:
    assert not signs(RowwiseParallel(input_layouts=Replicate()), 2, torch.float32)


def signs(style: ParallelStyle, tp: int, dtype: torch.dtype) -> bool:
    """Whether every zero of an embedding comes out as -0.0, which it is."""
    model, ids = nn.Sequential(nn.Embedding(16, 8, dtype=dtype)), torch.arange(16).view(2, 8)
    with torch.no_grad():
        model[0].weight.fill_(-0.0)
    with local.ranks(tp) as mesh:
        local.spread(model, tp)
        parallelize_module(model[0], mesh, style)
        ranks = local.of_each_rank(whole(model(local.copies(ids, tp))).detach(), tp)
    return all(bool(each.signbit().all()) for each in ranks)


@pytest.mark.parametrize("blocks", [0, -2, 3, 6, 12])
@pytest.mark.parametrize("style", [InvariantColwiseParallel, InvariantRowwiseParallel, InvariantSequenceParallel])
def test_blocks_are_a_power_of_two(style: Callable[..., ParallelStyle], blocks: int) -> None:
    refused(style(blocks=blocks), nn.Linear(48, 48), 1, "power of two")


def test_ranks_divide_the_blocks() -> None:
    refused(InvariantColwiseParallel(blocks=2), nn.Linear(48, 48), 4, "4 ranks do not divide 2 blocks")
    refused(InvariantRowwiseParallel(), nn.Linear(48, 48), 3, "3 ranks do not divide 8 blocks")


@pytest.mark.parametrize("tp", [1, 2])
def test_blocks_divide_the_widths(tp: int) -> None:
    refused(InvariantColwiseParallel(), nn.Linear(64, 36), tp, "output features of 36")
    refused(InvariantRowwiseParallel(), nn.Linear(36, 64), tp, "input features of 36")
    refused(InvariantColwiseParallel(), nn.Embedding(64, 36), tp, "features of 36")
    refused(InvariantRowwiseParallel(), nn.Embedding(36, 64), tp, "rows of 36")


@pytest.mark.parametrize("tp", [1, 2])
def test_blocks_of_a_product_are_two_wide(tp: int) -> None:
    refused(InvariantColwiseParallel(), nn.Linear(64, 8), tp, "8 blocks of output features of 8 are 1 wide")
    refused(InvariantRowwiseParallel(), nn.Linear(8, 64), tp, "8 blocks of input features of 8 are 1 wide")
    with local.ranks(tp) as mesh:
        for style, module in (
            (InvariantColwiseParallel(), nn.Linear(64, 16)),
            (InvariantRowwiseParallel(), nn.Linear(16, 1)),
            (InvariantColwiseParallel(), nn.Embedding(64, 8)),
            (InvariantRowwiseParallel(), nn.Embedding(8, 64)),
        ):
            local.spread(module, tp)
            parallelize_module(module, mesh, style)


@pytest.mark.parametrize("style", [InvariantColwiseParallel, InvariantRowwiseParallel])
@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}], ids=str)
def test_an_embedding_that_does_more_than_look_up_is_refused(style: Callable[..., Any], option: dict[str, Any]) -> None:
    refused(style(), nn.Embedding(64, 64, **option), 2, f"`{next(iter(option))}`", NotImplementedError)


def refused(style: ParallelStyle, module: nn.Module, tp: int, words: str, error: type[Exception] = ValueError) -> None:
    with local.ranks(tp) as mesh:
        local.spread(module, tp)
        with pytest.raises(error, match=words):
            parallelize_module(module, mesh, style)


def test_a_dimension_that_blocks_do_not_divide_is_refused_when_it_comes() -> None:
    model, x = nn.LayerNorm(16), torch.ones(2, 12, 16)
    with local.ranks(1) as mesh:
        local.spread(model, 1)
        parallelize_module(model, mesh, InvariantSequenceParallel())
        with pytest.raises(ValueError, match="8 blocks on a rank do not divide dimension 1 of 12"):
            model(local.copies(x, 1))


def test_a_sum_is_a_tree() -> None:
    values = [2.0**24, 1.0, 1.0, 1.0, 3.0, 2.0**25, 1.0, 1.0]
    terms = [torch.tensor(value) for value in values]
    a, b, c, d, e, f, g, h = (each.clone() for each in terms)
    tree = ((a + b) + (c + d)) + ((e + f) + (g + h))
    one_by_one = a + b + c + d + e + f + g + h
    assert not torch.equal(tree, one_by_one)
    assert torch.equal(tree_sum(each.clone() for each in terms), tree)
    halves = [tree_sum(each.clone() for each in part) for part in (terms[:4], terms[4:])]
    assert torch.equal(tree_sum(halves), tree)


def test_a_sum_in_a_wider_type_is_rounded_once() -> None:
    terms = [torch.tensor(value, dtype=torch.bfloat16) for value in (256.0, 1.0, 1.0, 1.0)]
    assert tree_sum((each.clone() for each in terms), torch.float32).item() == 259.0
    assert tree_sum(each.clone() for each in terms).item() == 258.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("style", [InvariantColwiseParallel, InvariantRowwiseParallel])
def test_autocast_computes_in_the_type_of_plain_layers(style: Callable[..., ParallelStyle], dtype: torch.dtype) -> None:
    module, x = nn.Linear(WIDTH, WIDTH, dtype=dtype), torch.randn(3, WIDTH).to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        right = module(x).detach()
    with local.ranks(1) as mesh, torch.autocast("cpu", torch.bfloat16):
        local.spread(module, 1)
        parallelize_module(module, mesh, style())
        (got,) = local.of_each_rank(module(local.copies(x, 1)).detach(), 1)
    assert got.dtype == right.dtype == (torch.float64 if dtype == torch.float64 else torch.bfloat16)
    close = 1e-12 if dtype == torch.float64 else 0.05
    torch.testing.assert_close(got, right, rtol=0, atol=close)
