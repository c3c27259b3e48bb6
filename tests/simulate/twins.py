"""Tiny twins of real models: the same classes, few and narrow layers, float64, every weight random and felt."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MethodType
from typing import Any

import torch
import transformers
from torch import Tensor, nn

VOCABULARY = 48
UNEVEN_VOCABULARY = 50
PAD = 0
LENGTH = 10  # tokens; more than the window of Gemma's sliding layers
Inputs = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """What makes a model.

    Attributes:
        cls: the class in transformers.
        config: the class of its configuration.
        sizes: what differs from the common sizes.
    """

    cls: str
    config: str
    sizes: Mapping[str, Any] = field(default_factory=dict)


_HEADS = {"head_dim": 8}
_GEMMA = _HEADS | {"query_pre_attn_scalar": 8, "sliding_window": 4}
_MOE = _HEADS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True}
_MULTIPLIERS = {"embedding_multiplier": 3.0, "residual_multiplier": 0.7, "logits_scaling": 2.0}
TWINS: dict[str, Twin] = {
    "qwen2": Twin(cls="Qwen2ForCausalLM", config="Qwen2Config"),
    "qwen2_tied": Twin(cls="Qwen2ForCausalLM", config="Qwen2Config", sizes={"tie_word_embeddings": True}),
    "qwen2_score": Twin(cls="Qwen2ForSequenceClassification", config="Qwen2Config", sizes={"num_labels": 3}),
    "qwen3": Twin(cls="Qwen3ForCausalLM", config="Qwen3Config", sizes=_HEADS),
    "qwen3_tied": Twin(cls="Qwen3ForCausalLM", config="Qwen3Config", sizes=_HEADS | {"tie_word_embeddings": True}),
    "qwen3_one_kv": Twin(cls="Qwen3ForCausalLM", config="Qwen3Config", sizes=_HEADS | {"num_key_value_heads": 1}),
    "qwen3_score": Twin(cls="Qwen3ForSequenceClassification", config="Qwen3Config", sizes=_HEADS | {"num_labels": 3}),
    "llama": Twin(cls="LlamaForCausalLM", config="LlamaConfig"),
    "gemma3": Twin(cls="Gemma3ForCausalLM", config="Gemma3TextConfig", sizes=_GEMMA),
    "phi3": Twin(cls="Phi3ForCausalLM", config="Phi3Config"),
    "qwen3_moe": Twin(cls="Qwen3MoeForCausalLM", config="Qwen3MoeConfig", sizes=_MOE),
    "granite": Twin(cls="GraniteForCausalLM", config="GraniteConfig", sizes=_MULTIPLIERS),
    "stablelm": Twin(cls="StableLmForCausalLM", config="StableLmConfig", sizes={"use_qkv_bias": True}),
    "olmo2": Twin(cls="Olmo2ForCausalLM", config="Olmo2Config"),
}
# The same with a vocabulary that neither 4 nor 8 ranks divide.
TWINS |= {
    f"{name}_uneven": Twin(cls=twin.cls, config=twin.config, sizes={**twin.sizes, "vocab_size": UNEVEN_VOCABULARY})
    for name, twin in tuple(TWINS.items())
    if name in ("qwen2", "qwen3", "qwen3_tied", "gemma3")
}


def make(name: str, *, layers: int = 1, attention: str = "sdpa", seed: int = 1) -> nn.Module:
    """A fresh model in float64, in evaluation mode; always the same for the same arguments.

    Args:
        name: a key of `TWINS`.
        layers: decoder layers. Gemma's first is a sliding one and its second a full one.
        attention: transformers' `attn_implementation`.
        seed: for the weights.
    """
    return copy.deepcopy(_built(name, layers, attention, seed))


@cache
def _built(name: str, layers: int, attention: str, seed: int) -> nn.Module:
    twin = TWINS[name]
    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "pad_token_id": PAD,
        "eos_token_id": 1,
        "use_cache": False,
        "attn_implementation": attention,
    }
    if name.startswith("gemma3"):
        sizes |= {"layer_types": ["sliding_attention", "full_attention"][:layers], "tie_word_embeddings": True}
    config = getattr(transformers, twin.config)(**{**sizes, **twin.sizes})
    if name.startswith("qwen3_moe"):
        config._experts_implementation = "eager"  # the grouped product has no float64
    model: nn.Module = getattr(transformers, twin.cls)(config).double().eval()
    fill(model, seed)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = MethodType(_norm, module)  # on the object: other models keep transformers' own
    return model


def fill(model: nn.Module, seed: int = 1) -> None:
    """Gives every parameter random numbers of which each matters, the same ones for the same seed."""
    source = torch.Generator().manual_seed(seed)
    one = 0 if type(model).__name__.startswith("Gemma") else 1  # Gemma adds the 1 itself
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.copy_(one + 0.3 * noise if key.endswith("norm.weight") else noise / 4)


def _norm(self: Any, x: Tensor) -> Tensor:
    """RMSNorm without transformers' way over float32, which would hide errors below 1e-7."""
    gemma = type(self).__name__.startswith("Gemma")
    epsilon = self.eps if gemma else self.variance_epsilon
    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
    scaled: Tensor = normed * (1 + self.weight) if gemma else self.weight * normed
    return scaled


def inputs(name: str, *, batch: int = 3, length: int = LENGTH, masked: bool = False, seed: int = 7) -> Inputs:
    """Random tokens ``[batch, length]`` for a twin, none of them padding.

    With `masked` there is a padding mask too, which hides the first tokens of every other sequence.
    """
    source = torch.Generator().manual_seed(seed)
    vocabulary = TWINS[name].sizes.get("vocab_size", VOCABULARY)
    found = {"input_ids": torch.randint(2, vocabulary, (batch, length), generator=source)}
    if masked:
        found["attention_mask"] = torch.ones(batch, length, dtype=torch.long)
        found["attention_mask"][1::2, : max(length // 3, 1)] = 0
    return found


def module_names(name: str, layers: int = 1) -> dict[str, str]:
    """The class of every module of a twin, by its full name."""
    return {key: type(module).__name__ for key, module in _built(name, layers, "sdpa", 1).named_modules()}
