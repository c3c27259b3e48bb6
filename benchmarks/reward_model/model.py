"""The reward model: a Qwen3 for sequence classification with one label, and its weights on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForSequenceClassification

from benchmarks.reward_model.data import LENGTH, VOCABULARY
from benchmarks.reward_model.recipe import Recipe

CLASS = "Qwen3ForSequenceClassification"
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def config(recipe: Recipe) -> Qwen3Config:
    """The model's configuration: eight heads, and as many for keys and values."""
    return Qwen3Config(  # type: ignore[call-arg]
        architectures=[CLASS],
        vocab_size=VOCABULARY,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        head_dim=recipe.head_dim,
        max_position_embeddings=8 * LENGTH,
        num_labels=1,
        pad_token_id=0,
        use_cache=False,
    )


def initial(recipe: Recipe, seed: int) -> nn.Module:
    """A new model, in float32."""
    torch.manual_seed(seed)
    model: nn.Module = Qwen3ForSequenceClassification(config(recipe))  # type: ignore[no-untyped-call]
    return model.eval()


def with_weights(recipe: Recipe, weights: Mapping[str, Tensor], dtype: str) -> nn.Module:
    """A model with given weights in one of `DTYPES`; what it computes rotations from stays in float32."""
    model = initial(recipe, 0)
    model.load_state_dict(weights)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(DTYPES[dtype])
    return model


def rewards(model: nn.Module, tokens: Tensor) -> Tensor:
    """The scores of sequences: [sequences, LENGTH] to [sequences]."""
    logits: Tensor = model(input_ids=tokens).logits
    return logits[:, 0]


def preference_loss(scores: Tensor) -> Tensor:
    """Bradley and Terry's loss of scores, those of the preferred half first: [2 * pairs] to one number."""
    preferred, other = scores.chunk(2)
    return -nn.functional.logsigmoid(preferred - other).mean()


def weights_path(cache: Path, seed: int) -> Path:
    """Where the trained weights of a seed are kept."""
    return cache / f"reward-{seed}.pt"


def load_weights(cache: Path, seed: int) -> dict[str, Tensor]:
    """The trained weights of a seed.

    Raises:
        FileNotFoundError: none were trained.
    """
    path = weights_path(cache, seed)
    if not path.exists():
        raise FileNotFoundError(f"no weights of seed {seed} in {cache}: run `train` first")
    weights: dict[str, Tensor] = torch.load(path, weights_only=True)
    return weights


def digest(weights: Mapping[str, Tensor]) -> str:
    """The first 16 hex digits of the sha256 of all weights, in the order of their names."""
    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(name.encode() + weights[name].contiguous().numpy().tobytes())
    return found.hexdigest()[:16]
