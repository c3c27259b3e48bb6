"""What every rank holds, beside what it really holds."""

from __future__ import annotations

import pytest
import torch.distributed as dist
import twins
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import planlang
from planlang.analysis.cost.memory import Memory, memory
from planlang.model.capture import capture_module

PLANS = ("qwen", "qwen_stable", "qwen_sequence")


def of_twin(twin: str, plan: str | planlang.Plan, tp: int) -> Memory:
    loaded = planlang.load(plan) if isinstance(plan, str) else plan
    compiled = loaded.compile(capture_module(twins.make(twin, layers=2), "the twin"), tp=tp).checked()
    return memory(compiled.assignments[0], {"tp": tp}, 2)


def really_held(twin: str, plan: str | planlang.Plan, tp: int, rank: int) -> int:
    """The numbers of a rank's parameters after applying a plan."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=tp)
    model = twins.make(twin, layers=2)
    planlang.parallelize(model, init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",)), plan)
    dist.destroy_process_group()
    local = (each.to_local() if isinstance(each, DTensor) else each for each in model.parameters())
    return sum(each.numel() for each in local)


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("twin", ["qwen2", "qwen3_tied", "qwen3_uneven", "qwen3_tied_uneven", "qwen3_score"])
def test_first_and_last_rank(twin: str, plan: str, tp: int) -> None:
    found = of_twin(twin, plan, tp)
    assert found.largest == really_held(twin, plan, tp, 0)
    assert found.smallest == really_held(twin, plan, tp, tp - 1)
    assert found.numbers == sum(each.numel() for each in twins.make(twin, layers=2).parameters())


def test_a_rule_that_takes_all_below() -> None:
    plan = planlang.loads(
        "plan p for Qwen3ForCausalLM\nmesh tp\nmodel.layers.{0}.self_attn: replicate\nlm_head: colwise(local=false)\n"
    )
    held = {(each.name, each.kept): each for each in of_twin("qwen3", plan, 4).held}
    attention = "model.layers.*.self_attn.q_proj.weight"
    assert held[attention, "replicated"].count == held[attention, "plain"].count == 1
    assert held["lm_head.weight", "sharded"].largest == 12 * 32
    assert of_twin("qwen3", plan, 4).largest == really_held("qwen3", plan, 4, 0)


def test_what_stays_whole() -> None:
    found = of_twin("qwen3", "qwen", 4)
    kept = {each.name.rpartition(".")[0].rpartition(".")[2]: each.kept for each in found.whole}
    assert kept == {
        "q_norm": "replicated",
        "k_norm": "replicated",
        "input_layernorm": "plain",
        "post_attention_layernorm": "plain",
        "norm": "plain",
    }


def test_a_custom_style_is_taken_for_whole() -> None:
    plan = planlang.loads('plan p for Qwen3ForCausalLM\nmesh tp\nlm_head: custom "a.b:C"\n')
    head = next(each for each in of_twin("qwen3", plan, 4).held if each.name == "lm_head.weight")
    assert (head.kept, head.layout, head.largest) == ("custom", None, head.numbers)


def test_bytes() -> None:
    """Parameters and gradients in the type that is asked for, AdamW's two moments in float32."""
    found = of_twin("qwen3", "qwen", 4)
    assert found.bytes_of(10) == (20, 20, 80)
