"""The same bits on 1, 2, 4 and 8 simulated ranks, and the right gradients."""

from __future__ import annotations

from functools import cache, partial

import pytest
import torch
from invariant_runs import KINDS, Bits, differing, invariant, plain, same, trained, unsharded
from torch import Tensor, nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import parallelize_module
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

from planlang.runtime.invariant import InvariantColwiseParallel, InvariantRowwiseParallel
from planlang.runtime.simulate import local

DTYPES = (torch.bfloat16, torch.float32, torch.float64)
TRAINED = DTYPES[:2]  # what is trained in; of the third one shape is enough
SHAPES = ((1, 1), (1, 17), (3, 1), (3, 17))
RANKS = (2, 4, 8)
ROUNDING = 1e-12


@cache
def on_one(kind: str, dtype: torch.dtype, shape: tuple[int, int]) -> Bits:
    return trained(kind, dtype, 1, shape)


def norm_in_double(self: nn.Module, hidden_states: Tensor) -> Tensor:
    """RMSNorm without transformers' way over float32, which would hide errors below 1e-7."""
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


@pytest.mark.parametrize("tp", [1, *RANKS])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_unsharded_model(kind: str, tp: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_qwen2.Qwen2RMSNorm, "forward", norm_in_double)
    monkeypatch.setattr(modeling_qwen3.Qwen3RMSNorm, "forward", norm_in_double)
    right = unsharded(kind, torch.float64, (3, 17))
    got = trained(kind, torch.float64, tp, (3, 17))
    assert got.keys() == right.keys()
    assert len(right) > 20
    wrong = {
        name: float((each - right[name]).abs().max() / right[name].abs().max())
        for name, ranks in got.items()
        for each in ranks
        if not (each - right[name]).abs().max() <= ROUNDING * right[name].abs().max()
    }
    # A bias of the keys moves all scores of a query alike, which softmax takes out: its gradient is rounding.
    assert {name for name in wrong if not name.endswith("k_proj.bias")} == set()
    largest = max(float(each.abs().max()) for name, each in right.items() if name.startswith("gradient"))
    for name in wrong:
        assert all(float((each - right[name]).abs().max()) < ROUNDING * largest for each in got[name])


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [*((dtype, shape) for dtype in TRAINED for shape in SHAPES), (torch.float64, SHAPES[-1])],
    ids=lambda each: f"{each[0]}x{each[1]}" if isinstance(each, tuple) else str(each),
)
@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_have_the_same_bits(kind: str, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    one = on_one(kind, dtype, shape)
    for tp in RANKS:
        assert differing(one, trained(kind, dtype, tp, shape)) == [], tp


@pytest.mark.parametrize("dtype", TRAINED, ids=str)
@pytest.mark.parametrize("kind", ["qwen3-tied", "qwen2-bias"])
def test_weights_after_twenty_steps_have_the_same_bits(kind: str, dtype: torch.dtype) -> None:
    one = trained(kind, dtype, 1, (3, 17), steps=20, layers=1)
    assert any(name.startswith("weight") for name in one)
    for tp in (2, 8):
        assert differing(one, trained(kind, dtype, tp, (3, 17), steps=20, layers=1)) == [], tp


@pytest.mark.parametrize("kind", ["qwen3", "qwen2-bias"])
def test_sums_in_float32_have_the_same_bits_too(kind: str) -> None:
    wide = partial(invariant, accumulate=torch.float32)
    one = trained(kind, torch.bfloat16, 1, (3, 17), styles=wide)
    for tp in RANKS:
        assert differing(one, trained(kind, torch.bfloat16, tp, (3, 17), styles=wide)) == [], tp
    assert differing(one, on_one(kind, torch.bfloat16, (3, 17))) != []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_plain_styles_do_not_have_the_same_bits(dtype: torch.dtype) -> None:
    one = trained("qwen2-bias", dtype, 1, (3, 17), styles=plain)
    for tp in RANKS:
        found = differing(one, trained("qwen2-bias", dtype, tp, (3, 17), styles=plain))
        if dtype != torch.float64:  # there the model's norms, which go over float32, round most of it away again
            assert "logits" in found
        assert any(name.startswith("gradient") for name in found)


@pytest.mark.parametrize("reentrant", [False, True], ids=["checkpoint", "reentrant checkpoint"])
def test_checkpointed_layers_change_no_bits(reentrant: bool) -> None:
    def prepare(model: nn.Module) -> None:
        model.activation_checkpointing_enable({"use_reentrant": reentrant})  # type: ignore[operator]
        model.enable_input_require_grads()  # type: ignore[operator]

    one = on_one("qwen3", torch.float32, (3, 17))
    for tp in (1, 2, 8):
        assert differing(one, trained("qwen3", torch.float32, tp, (3, 17), prepare=prepare)) == [], tp


def test_autocast_runs_and_has_the_same_bits() -> None:
    one = trained("qwen3", torch.float32, 1, (3, 17), autocast=True)
    assert one["logits"][0].dtype == torch.bfloat16
    assert one["gradient model.layers.0.self_attn.q_proj.weight"][0].dtype == torch.float32
    for tp in RANKS:
        assert differing(one, trained("qwen3", torch.float32, tp, (3, 17), autocast=True)) == [], tp
    assert differing(one, on_one("qwen3", torch.float32, (3, 17))) != []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_has_the_same_bits_with_one_head_a_rank(attention: str, dtype: torch.dtype) -> None:
    """A rank that has one head of one sequence shares its products among threads, where there are several."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        one = trained("qwen2-bias", dtype, 1, (1, 64), layers=1, attention=attention)
        for tp in RANKS:
            assert differing(one, trained("qwen2-bias", dtype, tp, (1, 64), layers=1, attention=attention)) == [], tp
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("seed", [2, 7, 13])  # where the kernels add up otherwise and the sum does not round it away
def test_narrow_blocks_of_few_tokens_have_the_same_bits(seed: int) -> None:
    """Blocks of a gradient with gaps between their rows went to another kernel than blocks without."""
    source = torch.Generator().manual_seed(seed)
    weight, gradient = (torch.randn(shape, generator=source).bfloat16() for shape in ((144, 4096), (3, 144)))
    found, zeros = [], torch.zeros(3, 4096, dtype=torch.bfloat16)
    for tp in (1, *RANKS):
        module = nn.Linear(4096, 144, bias=False)
        module.weight = nn.Parameter(weight)
        with local.ranks(tp) as mesh:
            local.spread(module, tp)
            parallelize_module(module, mesh, InvariantColwiseParallel(output_layouts=Replicate()))
            x = local.copies(zeros, tp).requires_grad_()
            module(x).backward(local.copies(gradient, tp))
            assert x.grad is not None
            found.append(local.of_each_rank(x.grad, tp)[0])
    assert all(same(found[0], each) for each in found[1:])


def test_blocks_that_begin_within_a_line_have_the_same_bits_with_one_token() -> None:
    """Where a product is written to decides which kernel makes it: 54 numbers of float32 are no whole cache lines."""
    source = torch.Generator().manual_seed(0)
    weight, gradient = torch.randn((995, 432), generator=source), torch.randn((1, 995), generator=source)
    found = []
    for tp in (1, *RANKS):
        module = nn.Linear(432, 995, bias=False)
        module.weight = nn.Parameter(weight)
        zeros = torch.zeros(1, 432 // tp)
        with local.ranks(tp) as mesh:
            local.spread(module, tp)
            parallelize_module(module, mesh, InvariantRowwiseParallel())
            x = local.copies(zeros, tp).requires_grad_()
            module(x).backward(local.copies(gradient, tp))
            assert x.grad is not None
            parts = local.of_each_rank(x.grad, tp)
        found.append(torch.cat(parts, 1))
    assert all(same(found[0], each) for each in found[1:])
