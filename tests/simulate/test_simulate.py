"""What the simulator says of plans whose fate is known."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pytest
import torch
import twins
from torch import Tensor, nn
from torch.distributed import tensor as placements
from torch.distributed.tensor.parallel import ColwiseParallel

from planlang.layout import Partial, Replicate, Shard
from planlang.plan.styles import Colwise, Rowwise, Sequence
from planlang.runtime.simulate import Outcome, Truth, local, simulate, truth
from planlang.runtime.simulate.run import Contract
from plans import Plan, expand, right_plans

ATTENTION = "model.layers.0.self_attn"
MLP = "model.layers.0.mlp"
ALL_PLANS = ("qwen2", "qwen3", "gemma3", "phi3", "qwen3_moe")
RIGHT = [
    *((twin, name, 2, 3, 10) for twin in ALL_PLANS for name in right_plans(twin)),
    *((twin, "sequence_hoisted", 2, 3, 10) for twin in ("qwen2_tied", "qwen3_tied", "qwen2_score", "qwen3_score")),
    ("llama", "row", 2, 3, 10),
    ("qwen3_one_kv", "gathered", 2, 3, 10),
    # Fewer tokens and sequences than ranks, and sizes that the ranks do not divide.
    *((twin, name, 4, 2, 1) for twin in ("qwen3", "gemma3") for name in ("row", "stable_hoisted", "sequence")),
    *((twin, "sequence", 4, 3, 10) for twin in ("qwen3_uneven", "qwen3_tied_uneven", "gemma3_uneven")),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@cache
def right(twin: str, batch: int, length: int) -> Truth:
    return truth(partial(twins.make, twin), twins.inputs(twin, batch=batch, length=length))


def outcome(
    twin: str,
    plan: Plan,
    *,
    tp: int = 2,
    batch: int = 3,
    length: int = 10,
    retie: bool = True,
    contract: Contract = "torch",
) -> Outcome:
    known = right(twin, batch, length)
    styles = expand(plan, twins.module_names(twin))
    make = partial(twins.make, twin)
    return simulate(make, styles, tp, known.inputs, retie=retie, contract=contract, right=known)


def without(plan: Plan, *endings: str) -> Plan:
    return {key: style for key, style in plan.items() if not key.endswith(endings)}


@pytest.mark.parametrize(("twin", "name", "tp", "batch", "length"), RIGHT)
def test_a_right_plan_is_right(twin: str, name: str, tp: int, batch: int, length: int) -> None:
    found = outcome(twin, right_plans(twin)[name], tp=tp, batch=batch, length=length)
    assert found.verdict == "right", found
    # At one token the gradients of queries and keys are rounding, and judged by the floor.
    assert found.worst < (1e-13 if length > 1 else 1e-10)


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("name", ["row", "stable", "stable_hoisted"])
def test_head_norms_without_a_rule_have_wrong_gradients_and_nothing_else_has(name: str, tp: int) -> None:
    found = outcome("qwen3", without(right_plans("qwen3")[name], "_norm"), tp=tp)
    assert found.verdict == "gradient"
    assert {g.name for g in found.gradients} == {f"{ATTENTION}.{which}_norm.weight" for which in "qk"}
    assert all(g.error > 0.3 and g.spread > 0.3 for g in found.gradients)


@pytest.mark.parametrize("which", ["k", "v"])
def test_a_projection_that_is_left_whole_between_split_ones_is_wrong_in_the_forward_pass(which: str) -> None:
    plan = without(right_plans("qwen3")["row"], f".{which}_proj", f".{which}_norm")
    found = outcome("qwen3", plan)
    assert found.verdict == "forward"
    assert found.forward_error > 0.1


def test_a_crash_names_the_module_it_happened_in() -> None:
    plan = right_plans("qwen3")["stable"]
    key = "model.layers.*.self_attn.o_proj"
    found = outcome("qwen3", plan | {key: Colwise(in_=Shard(-1), out=Replicate(), local=False)})
    assert found.verdict == "crash"
    assert found.crash is not None
    assert (found.crash.stage, found.crash.module) == ("forward", "model.layers.0")
    assert "mixed torch.Tensor and DTensor" in found.crash.message


class Failing(torch.autograd.Function):
    """Passes a tensor on, and has no gradient for it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise ValueError("no gradient")


@pytest.mark.parametrize("name", [f"{MLP}.down_proj", f"{MLP}.act_fn", f"{ATTENTION}.k_norm", MLP, "model.norm"])
def test_a_crash_in_the_backward_pass_names_its_module(name: str) -> None:
    def watch(model: nn.Module) -> None:
        model.get_submodule(name).register_forward_hook(lambda module, args, output: Failing.apply(output))

    known = right("qwen3", 3, 10)
    styles = expand(right_plans("qwen3")["row"], twins.module_names("qwen3"))
    found = simulate(partial(twins.make, "qwen3"), styles, 2, known.inputs, right=known, watch=watch)
    assert found.crash is not None
    assert (found.crash.stage, found.crash.module) == ("backward", name)


def test_what_torch_refuses_names_the_module_of_the_style() -> None:
    found = outcome("qwen3", {"model.norm": Colwise()})
    assert found.crash is not None
    assert (found.crash.stage, found.crash.module) == ("applying", "model.norm")


@pytest.mark.parametrize("tp", [2, 4])
def test_a_norm_that_is_called_split_while_it_is_whole_gets_its_gradient_once_a_rank(tp: int) -> None:
    key = "model.layers.*.input_layernorm"
    found = outcome("qwen3", right_plans("qwen3")["row"] | {key: Sequence(local=True)}, tp=tp)
    assert found.verdict == "gradient"
    (wrong,) = found.gradients
    assert wrong.name == "model.layers.0.input_layernorm.weight"
    assert (wrong.error, wrong.factor, wrong.spread) == pytest.approx((tp - 1, tp, 0))


@pytest.mark.parametrize("key", ["lm_head", "model.embed_tokens"])
@pytest.mark.parametrize("retie", [True, False])
def test_a_tie_with_a_rule_for_one_of_two(key: str, retie: bool) -> None:
    plan = without(right_plans("qwen3_tied")["row"], "lm_head", "embed_tokens")
    plan[key] = right_plans("qwen3_tied")["row"][key]
    found = outcome("qwen3_tied", plan, retie=retie)
    if retie:  # the one without a rule gets a DTensor weight that its plain input cannot meet
        assert found.verdict == "crash"
    else:
        assert found.verdict == "gradient"
        assert [g.name for g in found.gradients] == ["model.embed_tokens.weight"]


def test_a_tie_that_is_not_restored_splits_the_gradient() -> None:
    plan = right_plans("qwen3_tied")["row"]
    found = outcome("qwen3_tied", plan, retie=False)
    assert found.verdict == "gradient"
    assert [g.name for g in found.gradients] == ["model.embed_tokens.weight"]


def test_logits_must_be_whole_or_a_dtensor() -> None:
    plan = right_plans("qwen3")["row"]
    found = outcome("qwen3", plan | {"lm_head": Colwise()})
    assert (found.verdict, found.forward_error) == ("forward", float("inf"))
    assert found.note == "the logits have shape [3, 10, 24] on rank 0, not [3, 10, 48]"
    tokens = plan | {"lm_head": Rowwise(in_=Replicate(), out=Shard(1), local=False)}
    assert outcome("qwen3", tokens).verdict == "right"
    assert outcome("qwen3", tokens, contract="nemo-rl").verdict == "forward"
    assert outcome("qwen3", plan, contract="nemo-rl").verdict == "right"


def test_a_sum_that_is_left_out_is_wrong_without_a_word() -> None:
    plan = right_plans("qwen3")["row"]
    found = outcome("qwen3", plan | {"model.layers.*.mlp.down_proj": Rowwise(out=Partial())})
    assert (found.verdict, found.crash) == ("forward", None)


def test_a_collective_of_unequal_sizes_is_a_crash() -> None:
    def ragged(rank: int) -> torch.Tensor:
        return torch.ones(3 - rank)

    with local.ranks(2) as mesh:
        tensor = local.by_rank(2, ragged)
        with pytest.raises(local.UnequalSizesError, match=r"all_reduce of unequal sizes: \{0: \(3,\), 1: \(2,\)\}"):
            torch.distributed.all_reduce(tensor, group=mesh.get_group())


def test_styles_of_torch_are_taken_too() -> None:
    found = outcome("qwen3", {})
    assert found.verdict == "right"
    known = right("qwen3", 3, 10)
    styles = {f"{MLP}.up_proj": ColwiseParallel(output_layouts=placements.Replicate())}
    assert simulate(partial(twins.make, "qwen3"), styles, 2, known.inputs, right=known).verdict == "right"


def test_a_module_that_is_not_there_is_the_callers_mistake() -> None:
    known = right("qwen3", 3, 10)
    with pytest.raises(KeyError, match=r"model\.nrom"):
        simulate(partial(twins.make, "qwen3"), {"model.nrom": Sequence()}, 2, known.inputs, right=known)


@pytest.mark.parametrize("name", ["row", "stable_hoisted", "sequence"])
def test_micro_batches_add_up_and_a_step_moves_all_weights_alike(name: str) -> None:
    known = right("qwen3", 6, 10)
    styles = expand(right_plans("qwen3")[name], twins.module_names("qwen3"))
    make = partial(twins.make, "qwen3")
    found = simulate(make, styles, 2, known.inputs, right=known, micro_batches=3, step=True)
    assert found.verdict == "right"
    assert 0 < found.stepped < 1e-9


def test_a_gradient_that_is_lost_between_micro_batches_is_seen() -> None:
    """Held against one pass of another batch, three parts of this one are wrong."""
    known = right("qwen3", 6, 10)
    styles = expand(right_plans("qwen3")["row"], twins.module_names("qwen3"))
    other = {key: each.flip(0) for key, each in known.inputs.items()}
    found = simulate(partial(twins.make, "qwen3"), styles, 2, other, right=known, micro_batches=3)
    assert found.verdict == "forward"


def test_a_watch_is_given_the_parallel_model() -> None:
    known = right("qwen3", 3, 10)
    seen: list[str] = []
    styles = expand(right_plans("qwen3")["row"], twins.module_names("qwen3"))
    simulate(
        partial(twins.make, "qwen3"),
        styles,
        2,
        known.inputs,
        right=known,
        watch=lambda model: seen.append(type(next(model.parameters())).__name__),
    )
    assert seen == ["DTensor"]
