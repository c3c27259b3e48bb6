"""Gradients that are clipped by their norm: as torch does on one device, with equal bits on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from invariant_runs import one_process, same
from test_invariant_styles import Found, Siblings, differing, gradients, once, siblings, simulated, styled
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import planlang
from planlang.runtime.simulate import local
from planlang.runtime.simulate.run import whole

MOST = 0.5
Clip = Callable[[nn.Module, float], Tensor]


def torchs(model: nn.Module, most: float) -> Tensor:
    return whole(nn.utils.clip_grad_norm_(model.parameters(), most))


def clipped(clip: Clip) -> Callable[[Siblings, Tensor], Found]:
    def use(model: Siblings, x: Tensor) -> Found:
        once(model, x)
        return {"norm": clip(model, MOST)} | gradients(model, x)

    return use


def alone(most: float = MOST) -> Found:
    """The model as it is, clipped by torch."""
    model, x = siblings(), torch.randn((3, 17, 64), generator=torch.Generator().manual_seed(1)).requires_grad_()
    once(model, x)
    return {"norm": torchs(model, most)} | gradients(model, x)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_the_norm_and_what_is_clipped_have_the_same_bits(tp: int) -> None:
    (right,) = simulated(1, clipped(planlang.clip_grad_norm_))
    for got in simulated(tp, clipped(planlang.clip_grad_norm_)):
        assert not differing(right, got)


def test_torchs_norm_has_other_bits() -> None:
    (right,) = simulated(1, clipped(torchs))
    assert any(not same(right["norm"], simulated(tp, clipped(torchs))[0]["norm"]) for tp in (2, 4, 8))


@pytest.mark.parametrize("tp", [1, 4])
def test_it_is_what_torch_computes_on_one_device(tp: int) -> None:
    right = alone()
    got = simulated(tp, clipped(planlang.clip_grad_norm_))[0]
    assert right["norm"] > 2 * MOST
    assert got.keys() == right.keys()
    for name, each in right.items():
        torch.testing.assert_close(got[name], each, rtol=1e-5, atol=1e-6)


def test_a_norm_below_the_most_changes_nothing() -> None:
    def use(model: Siblings, x: Tensor) -> Found:
        once(model, x)
        before = {name: whole(each.grad).clone() for name, each in model.named_parameters() if each.grad is not None}
        planlang.clip_grad_norm_(model, 1e9)
        assert all(same(before[name], whole(each.grad)) for name, each in model.named_parameters() if name in before)
        return {}

    simulated(1, use)


def test_plain_styles_are_gathered_and_plain_gradients_taken() -> None:
    model, x = siblings(), torch.randn((3, 17, 64), generator=torch.Generator().manual_seed(1))
    right = alone()
    with local.ranks(2) as mesh:
        local.spread(model, 2)
        parallelize_module(model, mesh, {"q": ColwiseParallel(), "k": ColwiseParallel(), "o": RowwiseParallel()})
        parallelize_module(model, mesh, {"v": ColwiseParallel()})
        given = local.copies(x, 2).requires_grad_()
        once(model, given)
        norm = planlang.clip_grad_norm_(model, MOST)
        found = {name: local.of_each_rank(whole(each), 2) for name, each in gradients(model, given).items()}
        norms = local.of_each_rank(norm, 2)
    for rank in range(2):
        torch.testing.assert_close(norms[rank], right["norm"], rtol=1e-5, atol=0)
        for name, each in found.items():
            torch.testing.assert_close(each[rank], right[name], rtol=1e-5, atol=1e-6)


def test_fsdp_over_the_styles_changes_no_bits() -> None:
    (right,) = simulated(1, clipped(planlang.clip_grad_norm_))
    with one_process("dp", "tp") as mesh:
        model = siblings()
        styled(model, mesh["tp"])
        fully_shard(model, mesh=mesh["dp"])
        x = torch.randn((3, 17, 64), generator=torch.Generator().manual_seed(1)).requires_grad_()
        once(model, x)
        assert same(planlang.clip_grad_norm_(model, MOST), right["norm"])


def test_a_model_without_gradients_has_no_norm() -> None:
    assert planlang.clip_grad_norm_(siblings(), MOST) == 0


def test_it_takes_the_model_itself() -> None:
    with pytest.raises(TypeError, match="takes the model"):
        planlang.clip_grad_norm_(siblings().parameters(), MOST)  # type: ignore[arg-type]
