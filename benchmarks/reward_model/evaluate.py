"""Scores the frozen sets under plans, and counts what is not as in the reference."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from torch import Tensor

from benchmarks.reward_model.counts import count
from benchmarks.reward_model.data import SETS, Sets, frozen_sets
from benchmarks.reward_model.graded import UNKNOWN, Graded
from benchmarks.reward_model.model import digest, load_weights, with_weights
from benchmarks.reward_model.recipe import Recipe
from benchmarks.reward_model.results import Scored
from benchmarks.reward_model.scoring import on_ranks, same_bits, unsharded

UNSHARDED = Graded(Path(), "none", "", UNKNOWN)
MESH_OF_ONE = "mesh of one"


def evaluate(
    recipe: Recipe,
    cache: Path,
    plans: Sequence[Graded],
    dtypes: Sequence[str],
    degrees: Sequence[int],
    seeds: Sequence[int],
    done: Collection[tuple[object, ...]],
) -> Iterator[list[Scored]]:
    """Scores every model of `cache` under every plan, type and degree.

    The frozen sets are checked first.

    Args:
        recipe: the sizes.
        cache: the folder of the trained weights.
        plans: with their grades.
        dtypes: of weights and scores.
        degrees: how many ranks, one by one.
        seeds: of the models.
        done: what is measured already, as `Scored.of` names it.

    Yields:
        The measurements of one model, type, plan and degree: one a set.
    """
    sets = frozen_sets(recipe.pairs)
    for seed in seeds:
        weights = load_weights(cache, seed)
        name = digest(weights)
        for dtype in dtypes:
            one = _One(recipe, sets, weights, dtype, seed, name)
            if one.of(UNSHARDED, 1) not in done:
                yield one.rows(UNSHARDED, 1, [one.alone()], one.alone(), "unsharded")
            for plan in plans:
                todo = [tp for tp in degrees if tp > 1 or plan.is_own_reference]
                for tp in todo:
                    if one.of(plan, tp) not in done:
                        yield one.under(plan, tp)


class _One:
    """One model in one type; its references are computed once."""

    def __init__(
        self, recipe: Recipe, sets: Sets, weights: dict[str, Tensor], dtype: str, seed: int, digest: str
    ) -> None:
        self.recipe, self.sets, self.weights = recipe, sets, weights
        self.dtype, self.seed, self.digest = dtype, seed, digest
        self.references: dict[str, Tensor] = {}

    def alone(self) -> Tensor:
        """The scores of the unsharded model."""
        if UNSHARDED.name not in self.references:
            model = with_weights(self.recipe, self.weights, self.dtype)
            self.references[UNSHARDED.name] = unsharded(model, self.sets.sequences, self.recipe.micro_batch)
        return self.references[UNSHARDED.name]

    def on_one(self, plan: Graded) -> Tensor:
        """The scores under a plan on a mesh of one."""
        if plan.name not in self.references:
            self.references[plan.name] = self.ranks(plan, 1)[0]
        return self.references[plan.name]

    def ranks(self, plan: Graded, tp: int) -> list[Tensor]:
        """The scores under a plan, on each rank."""
        model = with_weights(self.recipe, self.weights, self.dtype)
        return on_ranks(model, plan.path, tp, self.sets.sequences, self.recipe.micro_batch)

    def under(self, plan: Graded, tp: int) -> list[Scored]:
        """The measurements of a plan at a degree; on a mesh of one against the unsharded model."""
        if not plan.is_own_reference:
            return self.rows(plan, tp, self.ranks(plan, tp), self.alone(), "unsharded")
        if tp == 1:
            return self.rows(plan, tp, [self.on_one(plan)], self.alone(), "unsharded")
        return self.rows(plan, tp, self.ranks(plan, tp), self.on_one(plan), MESH_OF_ONE)

    def rows(self, plan: Graded, tp: int, ranks: list[Tensor], reference: Tensor, against: str) -> list[Scored]:
        """The measurements of scores, one a set."""
        equal = all(bool(same_bits(ranks[0], other).all()) for other in ranks)
        found: list[Scored] = []
        for name in SETS:
            counts = count(ranks[0], reference, self.sets.pairs[name])
            row = Scored(
                plan=plan.name,
                text=plan.text,
                grade=plan.grade,
                dtype=self.dtype,
                tp=tp,
                seed=self.seed,
                weights=self.digest,
                set=name,
                against=against,
                ranks_equal=equal,
                **asdict(counts),
            )
            found.append(row)
        return found

    def of(self, plan: Graded, tp: int) -> tuple[object, ...]:
        """What `Scored.of` is of a measurement of a plan at a degree."""
        return plan.name, plan.text, plan.grade, self.dtype, tp, self.seed, self.digest
