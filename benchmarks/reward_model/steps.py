"""The first steps of training under a plan, on simulated ranks, against the same on one process.

Weights and optimizer are in float32. What is computed in bfloat16 is so by torch's autocast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import planlang
from benchmarks.reward_model.data import training_pairs
from benchmarks.reward_model.gate import ROUNDING
from benchmarks.reward_model.graded import UNKNOWN, Graded
from benchmarks.reward_model.model import initial
from benchmarks.reward_model.recipe import Recipe
from benchmarks.reward_model.results import Stepped
from benchmarks.reward_model.scoring import same_bits, simulated
from benchmarks.reward_model.train import adamw, one_step
from planlang.runtime.simulate import local
from planlang.runtime.simulate.run import whole

GROUPS = ("q and k norms", "others")
ONE_PROCESS, MESH_OF_ONE = "one process", "mesh of one"


@dataclass(frozen=True, slots=True)
class Run:
    """What is trained.

    Attributes:
        plan: its name.
        role: what the gate asks of it.
        grade: what planlang says of the sums that cross ranks.
        dtype: what is computed in, one of `model.DTYPES`.
        tp: ranks.
        seed: of weights and data.
    """

    plan: str
    role: str
    grade: str
    dtype: str
    tp: int
    seed: int


@dataclass(frozen=True, slots=True)
class Trail:
    """Where steps of training ended, on each rank.

    Attributes:
        weights: of each parameter by name, one tensor a rank.
        losses: of each step, one number a rank.
    """

    weights: Mapping[str, list[Tensor]]
    losses: list[list[float]]


def train_under(
    recipe: Recipe, plans: Sequence[tuple[Graded, str]], dtype: str, degrees: Sequence[int], seed: int
) -> Iterator[list[Stepped]]:
    """Trains on one process, once more with the pairs reversed, and under plans.

    Args:
        recipe: the sizes.
        plans: with their roles.
        dtype: what is computed in.
        degrees: how many ranks, one by one; a plan that is its own reference is trained on a mesh of one in any case.
        seed: of weights and data.

    Yields:
        The results of each training but the first.
    """
    right = one_process(recipe, seed, dtype)
    turned = Run("one process, pairs reversed", ROUNDING, UNKNOWN, dtype, 1, seed)
    yield compare(turned, recipe, right, reversed_pairs(recipe, seed, dtype))
    for plan, role in plans:
        own = None
        if plan.is_own_reference:
            own = under(plan.path, 1, recipe, seed, dtype)
            yield compare(Run(plan.name, role, plan.grade, dtype, 1, seed), recipe, right, own)
        for tp in degrees:
            if tp > 1:
                run = Run(plan.name, role, plan.grade, dtype, tp, seed)
                yield compare(run, recipe, right, under(plan.path, tp, recipe, seed, dtype), own)


def one_process(recipe: Recipe, seed: int, dtype: str) -> Trail:
    """The steps on one process."""
    model = initial(recipe, seed)
    return _trail(model, _steps(model, recipe, _batches(recipe, seed), dtype), 1)


def reversed_pairs(recipe: Recipe, seed: int, dtype: str) -> Trail:
    """The steps on one process, the pairs of each step in the opposite order: what rounding alone does."""
    model = initial(recipe, seed)
    batches = [torch.cat([half.flip(0) for half in batch.chunk(2)]) for batch in _batches(recipe, seed)]
    return _trail(model, _steps(model, recipe, batches, dtype), 1)


def under(plan: Path, tp: int, recipe: Recipe, seed: int, dtype: str) -> Trail:
    """The steps under a plan. Every rank has weights, gradients and an optimizer's state of its own."""
    model, batches = initial(recipe, seed), _batches(recipe, seed)  # inside, each rank would draw its own
    with simulated(tp) as mesh:
        local.spread(model, tp)
        planlang.parallelize(model, mesh, plan)
        losses = _steps(model, recipe, [local.copies(batch, tp) for batch in batches], dtype)
        for module in model.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    module._parameters[name] = nn.Parameter(whole(parameter.detach()))
    return _trail(model, losses, tp)  # outside: what is done to one rank's tensor inside is done for all ranks


def _batches(recipe: Recipe, seed: int) -> list[Tensor]:
    return [training_pairs(seed, recipe.batch, step) for step in range(recipe.compared_steps)]


def _steps(model: nn.Module, recipe: Recipe, batches: Sequence[Tensor], dtype: str) -> list[Tensor]:
    """The losses of all steps, each one number on every rank."""
    optimizer = adamw(model, recipe.rate)
    return [one_step(model, optimizer, recipe, step, batch, dtype) for step, batch in enumerate(batches)]


def _trail(model: nn.Module, losses: list[Tensor], tp: int) -> Trail:
    weights = {name: local.of_each_rank(whole.detach(), tp) for name, whole in model.named_parameters()}
    return Trail(weights, [[each.item() for each in local.of_each_rank(loss, tp)] for loss in losses])


def compare(run: Run, recipe: Recipe, right: Trail, got: Trail, own: Trail | None = None) -> list[Stepped]:
    """What is different after the steps, a result a group of weights.

    Args:
        run: what was trained.
        recipe: the sizes.
        right: the steps of one process.
        got: those under the plan.
        own: those under the plan on a mesh of one, if that has the bits that these should have, and not one process.
    """
    start = dict(initial(recipe, run.seed).named_parameters())
    reference = right if own is None else own
    alone = [losses[0] for losses in right.losses]
    found: list[Stepped] = []
    for group in GROUPS:
        names = [name for name in right.weights if group_of(name) == group]
        ways = {name: right.weights[name][0] - start[name].detach() for name in names}
        off = {name: [each - right.weights[name][0] for each in got.weights[name]] for name in names}
        shares = {name: max(_norm([each]) for each in off[name]) / _norm([ways[name]]) for name in names}
        worst = max(shares, key=lambda name: shares[name])
        row = Stepped(
            plan=run.plan,
            role=run.role,
            grade=run.grade,
            dtype=run.dtype,
            tp=run.tp,
            steps=recipe.compared_steps,
            seed=run.seed,
            group=group,
            spread=max(_spread(got.weights[name]) for name in names),
            distance=max(_norm([off[name][rank] for name in names]) for rank in range(run.tp))
            / _norm(list(ways.values())),
            worst=shares[worst],
            worst_name=worst,
            loss_first=got.losses[0][0],
            loss_last=got.losses[-1][0],
            loss_one_process=alone[-1],
            loss_spread=max(max(losses) - min(losses) for losses in got.losses),
            loss_off=max(abs(loss - one) for losses, one in zip(got.losses, alone, strict=True) for loss in losses),
            against=ONE_PROCESS if own is None else MESH_OF_ONE,
            numbers=sum(start[name].numel() for name in names),
            differing=differing(names, got, reference),
            losses_differing=_losses_differing(got, reference),
        )
        found.append(row)
    return found


def differing(names: Sequence[str], got: Trail, reference: Trail) -> int:
    """How many numbers of some weights have other bits than in the reference, on the rank that has most of them."""
    unequal = [
        [int((~same_bits(each, reference.weights[name][0])).sum()) for each in got.weights[name]] for name in names
    ]
    return max(map(sum, zip(*unequal, strict=True)))


def group_of(name: str) -> str:
    """Which of `GROUPS` a parameter is in."""
    return GROUPS[0] if name.endswith(("q_norm.weight", "k_norm.weight")) else GROUPS[1]


def _losses_differing(got: Trail, reference: Trail) -> int:
    """How many steps have a loss on any rank that is not the reference's; no loss is zero, so equal is equal bits."""
    alone = [losses[0] for losses in reference.losses]
    return sum(any(loss != one for loss in losses) for losses, one in zip(got.losses, alone, strict=True))


def _norm(tensors: list[Tensor]) -> float:
    """The length of all tensors as one vector."""
    return float(torch.stack([tensor.double().square().sum() for tensor in tensors]).sum().sqrt())


def _spread(ranks: list[Tensor]) -> float:
    """The largest difference of an element between two ranks."""
    stacked = torch.stack(ranks)
    return float((stacked.amax(0) - stacked.amin(0)).max())
