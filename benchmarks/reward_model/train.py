"""Trains the reward models, one a seed, on one device in float32."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.reward_model.data import training_pairs
from benchmarks.reward_model.model import DTYPES, digest, initial, preference_loss, rewards, weights_path
from benchmarks.reward_model.recipe import Recipe
from benchmarks.reward_model.results import Trained

_WARM, _LAST = 20, 20  # steps in which the rate rises; steps whose loss is reported


def train(recipe: Recipe, seed: int, cache: Path) -> Trained:
    """Trains the model of a seed and keeps its weights in `cache`, written in one go."""
    model = initial(recipe, seed).train()
    optimizer = adamw(model, recipe.rate)
    losses = [
        one_step(model, optimizer, recipe, step, training_pairs(seed, recipe.batch, step)).item()
        for step in range(recipe.train_steps)
    ]
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    cache.mkdir(parents=True, exist_ok=True)
    path = weights_path(cache, seed)
    draft = path.with_suffix(".draft")
    torch.save(weights, draft)
    draft.replace(path)
    last = losses[-_LAST:]
    return Trained(
        seed=seed,
        steps=recipe.train_steps,
        parameters=sum(tensor.numel() for tensor in weights.values()),
        loss=sum(last) / len(last),
        weights=digest(weights),
    )


def one_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    step: int,
    sequences: Tensor,
    dtype: str = "float32",
) -> Tensor:
    """One step of training, whether there are ranks or not; its loss.

    Args:
        model: in float32, its weights change.
        optimizer: of its weights.
        recipe: the sizes.
        step: from 0; it decides the rate.
        sequences: the preferred half first, [2 * pairs, LENGTH].
        dtype: what is computed in, one of `DTYPES`; bfloat16 is torch's autocast.
    """
    for group in optimizer.param_groups:
        group["lr"] = recipe.rate * share(step, recipe.train_steps)
    optimizer.zero_grad()
    with torch.autocast("cpu", DTYPES[dtype], enabled=dtype != "float32"):
        scores = rewards(model, sequences)
    loss = preference_loss(scores.float())
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def adamw(model: nn.Module, rate: float) -> torch.optim.AdamW:
    """The optimizer; one parameter at a time, since a plan may leave plain tensors beside DTensors."""
    return torch.optim.AdamW(model.parameters(), lr=rate, foreach=False)


def share(step: int, steps: int) -> float:
    """The share of the highest rate at a step: it rises at first, and falls to nothing in the last third."""
    return min(1.0, (step + 1) / _WARM, 3 * (steps - step) / steps)
