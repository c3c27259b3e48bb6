"""The first steps of training under a plan, on simulated ranks, against the same on one process, in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import planlang
from benchmarks.reward_model.data import training_pairs
from benchmarks.reward_model.model import initial
from benchmarks.reward_model.recipe import Recipe
from benchmarks.reward_model.results import Stepped
from benchmarks.reward_model.scoring import simulated
from benchmarks.reward_model.train import adamw, one_step
from planlang.runtime.simulate import local
from planlang.runtime.simulate.run import whole

GROUPS = ("q and k norms", "others")


@dataclass(frozen=True, slots=True)
class Trail:
    """Where steps of training ended, on each rank.

    Attributes:
        weights: of each parameter by name, one tensor a rank.
        losses: of each step, one number a rank.
    """

    weights: Mapping[str, list[Tensor]]
    losses: list[list[float]]


def one_process(recipe: Recipe, seed: int) -> Trail:
    """The steps on one process."""
    model = initial(recipe, seed)
    return _trail(model, _steps(model, recipe, _batches(recipe, seed)), 1)


def reversed_pairs(recipe: Recipe, seed: int) -> Trail:
    """The steps on one process, the pairs of each step in the opposite order: what rounding alone does."""
    model = initial(recipe, seed)
    batches = [torch.cat([half.flip(0) for half in batch.chunk(2)]) for batch in _batches(recipe, seed)]
    return _trail(model, _steps(model, recipe, batches), 1)


def under(plan: Path, tp: int, recipe: Recipe, seed: int) -> Trail:
    """The steps under a plan. Every rank has weights, gradients and an optimizer's state of its own."""
    model, batches = initial(recipe, seed), _batches(recipe, seed)  # inside, each rank would draw its own
    with simulated(tp) as mesh:
        local.spread(model, tp)
        planlang.parallelize(model, mesh, plan)
        losses = _steps(model, recipe, [local.copies(batch, tp) for batch in batches])
        for module in model.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    module._parameters[name] = nn.Parameter(whole(parameter.detach()))
    return _trail(model, losses, tp)  # outside: what is done to one rank's tensor inside is done for all ranks


def _batches(recipe: Recipe, seed: int) -> list[Tensor]:
    return [training_pairs(seed, recipe.batch, step) for step in range(recipe.compared_steps)]


def _steps(model: nn.Module, recipe: Recipe, batches: Sequence[Tensor]) -> list[Tensor]:
    """The losses of all steps, each one number on every rank."""
    optimizer = adamw(model, recipe.rate)
    return [one_step(model, optimizer, recipe, step, batch) for step, batch in enumerate(batches)]


def _trail(model: nn.Module, losses: list[Tensor], tp: int) -> Trail:
    weights = {name: local.of_each_rank(whole.detach(), tp) for name, whole in model.named_parameters()}
    return Trail(weights, [[each.item() for each in local.of_each_rank(loss, tp)] for loss in losses])


def compare(plan: str, role: str, tp: int, recipe: Recipe, seed: int, right: Trail, got: Trail) -> list[Stepped]:
    """What is different after the steps, a result a group of weights.

    Args:
        plan: its name.
        role: what the gate asks of it.
        tp: ranks.
        recipe: the sizes.
        seed: of weights and data.
        right: the steps of one process.
        got: those under the plan.
    """
    start = dict(initial(recipe, seed).named_parameters())
    alone = [losses[0] for losses in right.losses]
    found: list[Stepped] = []
    for group in GROUPS:
        names = [name for name in right.weights if group_of(name) == group]
        ways = {name: right.weights[name][0] - start[name].detach() for name in names}
        off = {name: [each - right.weights[name][0] for each in got.weights[name]] for name in names}
        shares = {name: max(_norm([each]) for each in off[name]) / _norm([ways[name]]) for name in names}
        worst = max(shares, key=lambda name: shares[name])
        row = Stepped(
            plan=plan,
            role=role,
            tp=tp,
            steps=recipe.compared_steps,
            seed=seed,
            group=group,
            spread=max(_spread(got.weights[name]) for name in names),
            distance=max(_norm([off[name][rank] for name in names]) for rank in range(tp)) / _norm(list(ways.values())),
            worst=shares[worst],
            worst_name=worst,
            loss_first=got.losses[0][0],
            loss_last=got.losses[-1][0],
            loss_one_process=alone[-1],
            loss_spread=max(max(losses) - min(losses) for losses in got.losses),
            loss_off=max(abs(loss - one) for losses, one in zip(got.losses, alone, strict=True) for loss in losses),
        )
        found.append(row)
    return found


def group_of(name: str) -> str:
    """Which of `GROUPS` a parameter is in."""
    return GROUPS[0] if name.endswith(("q_norm.weight", "k_norm.weight")) else GROUPS[1]


def _norm(tensors: list[Tensor]) -> float:
    """The length of all tensors as one vector."""
    return float(torch.stack([tensor.double().square().sum() for tensor in tensors]).sum().sqrt())


def _spread(ranks: list[Tensor]) -> float:
    """The largest difference of an element between two ranks."""
    stacked = torch.stack(ranks)
    return float((stacked.amax(0) - stacked.amin(0)).max())
