"""The plans as a person would write them with torch's styles: what `test_dicts.py` holds the compiled ones against."""

from __future__ import annotations

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
)

from planlang.runtime.styles import ReplicateParallel

ATTENTION = "model.layers.*.self_attn"
MLP = "model.layers.*.mlp"
Plan = dict[str, ParallelStyle]


def torch_plan(name: str, model_class: str) -> Plan:
    """The plan `name` for `model_class`, without keys that would match nothing."""
    plan = PLANS[name]()
    if name != "seed" and model_class.startswith("Qwen3"):
        plan |= replicated_head_norms() if name == "replicate" else head_norms()
    if model_class.endswith("ForCausalLM"):
        plan["lm_head"] = ColwiseParallel(
            **({"input_layouts": Shard(1)} if name == "qwen_sequence" else {}),
            output_layouts=Shard(-1),
            use_local_output=False,
        )
    elif name == "qwen_sequence":
        plan["score"] = score()
    elif name == "replicate":
        plan["score"] = ReplicateParallel(grad="none")
    return plan


def qwen() -> Plan:
    """The textbook plan, inputs of attention and MLP prepared once: two all-reduces a layer in backward, not five."""
    return {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        ATTENTION: PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Replicate()},
            desired_input_kwarg_layouts={"hidden_states": Replicate()},
        ),
        f"{ATTENTION}.[qkv]_proj": ColwiseParallel(),
        f"{ATTENTION}.o_proj": RowwiseParallel(),
        MLP: PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate()),
        f"{MLP}.gate_proj": ColwiseParallel(),
        f"{MLP}.up_proj": ColwiseParallel(),
        f"{MLP}.down_proj": RowwiseParallel(),
    }


def seed() -> Plan:
    """The "stable" plan as published for NeMo-RL: no floating-point sum crosses ranks in the forward pass."""
    return {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        f"{ATTENTION}.[qkv]_proj": ColwiseParallel(),
        f"{ATTENTION}.o_proj": ColwiseParallel(input_layouts=Shard(-1), output_layouts=Replicate()),
        f"{MLP}.gate_proj": ColwiseParallel(),
        f"{MLP}.up_proj": ColwiseParallel(),
        f"{MLP}.down_proj": ColwiseParallel(input_layouts=Shard(-1), output_layouts=Replicate()),
    }


def qwen_sequence() -> Plan:
    """Sequence parallel: the residual stream is one DTensor, split along the sequence, from embedding to head."""
    return {
        "model.embed_tokens": RowwiseParallel(
            input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False
        ),
        "model.layers.*.*layernorm": SequenceParallel(),
        ATTENTION: PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Shard(1)},
            desired_input_kwarg_layouts={"hidden_states": Replicate()},
        ),
        f"{ATTENTION}.[qkv]_proj": ColwiseParallel(),
        f"{ATTENTION}.o_proj": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        MLP: PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        f"{MLP}.gate_proj": ColwiseParallel(),
        f"{MLP}.up_proj": ColwiseParallel(),
        f"{MLP}.down_proj": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "model.norm": SequenceParallel(),
    }


def replicate() -> Plan:
    """`qwen` with every norm weight a replicated DTensor, so that no parameter is left plain."""
    return qwen() | {
        "model.layers.*.*layernorm": ReplicateParallel(grad="none"),
        "model.norm": ReplicateParallel(grad="none"),
    }


def score() -> ParallelStyle:
    """Gathers the sequence for a classification head, which stays a plain Linear: its user picks tokens by position.

    With one label, `RowwiseParallel(input_layouts=Shard(1))` raises where the ranks do not divide the length, and
    `ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())` has AdamW raise (torch 2.13).
    """
    return PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate(), use_local_output=True)


def head_norms() -> Plan:
    """Norms inside a head, on a rank's own heads: their weights' gradients are summed over the ranks."""
    return {f"{ATTENTION}.[qk]_norm": SequenceParallel(sequence_dim=2, use_local_output=True)}


def replicated_head_norms() -> Plan:
    """The same by `replicate`."""
    return {f"{ATTENTION}.[qk]_norm": ReplicateParallel(grad="sum")}


PLANS = {
    "qwen": qwen,
    "qwen_stable": seed,
    "qwen_sequence": qwen_sequence,
    "replicate": replicate,
    "seed": seed,
}
