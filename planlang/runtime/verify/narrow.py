"""Small widths and no chance: what a configuration becomes for a twin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from planlang.analysis.coverage import drops

Widths: TypeAlias = Mapping[str, int]
_EXPERTS = {"num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8}
# The least that each width becomes; what is no multiple of a number of ranks stays none. `head` is of one head.
NARROW: Widths = {
    "head": 8,
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    **_EXPERTS,
}
# Wide enough for kernels to choose as they do in real models: those of sums of 3072 terms differ with the width.
WIDE: Widths = {
    "head": 64,
    "vocab_size": 2048,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    **_EXPERTS,
}
_HEADS = ("head_dim", "linear_key_head_dim", "linear_value_head_dim")
# Their code takes the width of a head from the hidden size, whatever `head_dim` says, and cuts it into three for rotary
# embeddings.
_CUT_HEADS = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni")  # what the names of their types begin with
_THINKERS = ("qwen2_5_omni_thinker", "qwen3_omni_moe_thinker")


def narrow(config: Any, ranks: int, widths: Widths) -> None:
    """Makes widths small that stay divisible by what they are divisible by."""
    head = widths["head"]
    cut_heads = getattr(config, "model_type", "").startswith(_CUT_HEADS)
    whole_heads = cut_heads or getattr(config, "head_dim", None) is None
    hidden = getattr(config, "hidden_size", 0)
    sections = "mrope_section" in (getattr(config, "rope_parameters", None) or {}) and not cut_heads
    for key in _HEADS:
        if (width := getattr(config, key, None)) and not (sections and key == "head_dim"):
            setattr(config, key, min(width, head))
    for key, least in widths.items():
        value = getattr(config, key, None)
        if isinstance(value, int) and value > least:
            setattr(config, key, narrowed(value, least, ranks))
    if whole_heads and not sections:
        config.hidden_size = config.num_attention_heads * min(head, hidden // config.num_attention_heads)
    if cut_heads:
        half = config.hidden_size // config.num_attention_heads // 2
        first, second = half // 4, half * 3 // 8
        config.rope_parameters["mrope_section"] = [first, second, half - first - second]
    if getattr(config, "sliding_window", None):
        config.sliding_window = 4
    chosen, experts = getattr(config, "num_experts_per_tok", None), getattr(config, "num_experts", None)
    if isinstance(chosen, int) and isinstance(experts, int):
        config.num_experts_per_tok = min(chosen, experts // 2)


def narrowed(width: int, least: int, ranks: int) -> int:
    """The smallest width from `least` on that the same divisors of `ranks` divide as `width`."""
    common = math.gcd(width, ranks)
    found = -(-least // common) * common
    while math.gcd(found, ranks) != common:
        found += common
    return found


def narrow_tower(config: Any, out: int) -> None:
    """Makes a tower for images or sound small.

    Args:
        config: of the tower.
        out: the width of what follows it.
    """
    if "out_hidden_size" in vars(config):
        config.out_hidden_size = out
    heads = getattr(config, "num_heads", None)
    for key in ("hidden_size", "intermediate_size"):
        if isinstance(heads, int) and isinstance(width := getattr(config, key, None), int):
            setattr(config, key, min(width, 16 * heads))


def settle(config: Any) -> None:
    """No chance and nothing that a single pass does not need."""
    for key, value in vars(config).items():
        if drops(key) and isinstance(value, float):
            setattr(config, key, 0.0)
    if getattr(config, "pad_token_id", None) is None or not 0 <= config.pad_token_id < getattr(config, "vocab_size", 1):
        config.pad_token_id = 0
    if getattr(config, "model_type", "") in _THINKERS and not hasattr(config, "vision_start_token_id"):
        config.vision_start_token_id = -1  # their code asks for it, and only published configurations have it


def undrop(model: nn.Module) -> None:
    """No dropout that the configuration does not know of."""
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
