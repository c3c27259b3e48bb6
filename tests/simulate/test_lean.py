"""The lean dispatch computes what torch's own `LocalTensorMode` computes, to the last bit."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch
import twins
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode

from planlang.layout import Partial, Shard
from planlang.plan.styles import Colwise, Rowwise, Sequence
from planlang.runtime.simulate import Outcome, local, simulate, truth
from planlang.runtime.simulate.lean import LeanLocalTensorMode
from planlang.runtime.simulate.spared import lean
from plans import Plan, expand, right_plans

ROW = right_plans("qwen3")["row"]
CASES: list[tuple[str, Plan, int, int, int]] = [
    ("qwen3", right_plans("qwen3")["stable_hoisted"], 2, 3, 10),
    ("qwen3", right_plans("qwen3")["sequence"], 4, 2, 1),
    ("gemma3_uneven", right_plans("gemma3_uneven")["sequence"], 4, 3, 10),
    ("qwen3_moe", right_plans("qwen3_moe")["row"], 2, 3, 10),
    ("qwen3", ROW | {"model.layers.*.mlp.down_proj": Rowwise(out=Partial())}, 2, 3, 10),
    ("qwen3", ROW | {"model.layers.*.input_layernorm": Sequence(local=True)}, 2, 3, 10),
    ("qwen3", ROW | {"model.layers.*.self_attn.o_proj": Rowwise(out=Shard(1))}, 2, 3, 11),
    ("qwen3", ROW | {"lm_head": Colwise()}, 2, 3, 10),
]


def outcome(twin: str, plan: Plan, tp: int, batch: int, length: int) -> Outcome:
    inputs = twins.inputs(twin, batch=batch, length=length)
    make = partial(twins.make, twin)
    return simulate(make, expand(plan, twins.module_names(twin)), tp, inputs, right=truth(make, inputs))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}x{case[3]}x{case[4]}")
def test_outcomes_are_torchs_own(case: tuple[str, Plan, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(*case)
    monkeypatch.setattr(local, "LeanLocalTensorMode", LocalTensorMode)
    monkeypatch.setattr(local, "lean", nullcontext)
    monkeypatch.setattr(local, "AXIS", "another")  # DTensor must not answer from what it remembers of the first run
    assert outcome(*case) == found


def test_random_numbers_are_each_ranks_own_and_all_alike() -> None:
    with local.ranks(2):
        drawn = torch.rand(3)
        again = torch.rand(3)
    assert isinstance(drawn, LocalTensor)
    assert torch.equal(drawn._local_tensors[0], drawn._local_tensors[1])
    assert not torch.equal(drawn._local_tensors[0], again._local_tensors[0])


def test_views_share_memory_on_each_rank_and_sizes_that_differ_are_known() -> None:
    with local.ranks(2):
        tensor = local.by_rank(2, lambda rank: torch.zeros(4))
        tensor.view(2, 2)[0].add_(1)
        assert all(torch.equal(own, torch.tensor([1.0, 1, 0, 0])) for own in local.of_each_rank(tensor, 2))
        ragged = local.by_rank(2, lambda rank: torch.ones(3 - rank)) * 2
        assert [len(each) for each in local.of_each_rank(ragged, 2)] == [3, 2]
        assert tensor.shape == (4,)
        both = torch.cat([tensor, tensor])
        assert [len(each) for each in local.of_each_rank(both, 2)] == [8, 8]


def test_what_was_changed_in_torch_is_changed_back() -> None:
    before = LocalTensor.__dict__["__torch_dispatch__"]
    with lean():
        assert LocalTensor.__dict__["__torch_dispatch__"] is not before
    assert LocalTensor.__dict__["__torch_dispatch__"] is before
    with pytest.raises(ZeroDivisionError), lean():
        raise ZeroDivisionError
    assert LocalTensor.__dict__["__torch_dispatch__"] is before
    assert issubclass(LeanLocalTensorMode, LocalTensorMode)
