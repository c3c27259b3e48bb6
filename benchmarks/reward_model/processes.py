"""One set scored on real processes over gloo, and the bits held against those of simulated ranks."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

import planlang
from benchmarks.reward_model.data import frozen_sets
from benchmarks.reward_model.model import load_weights, rewards, with_weights
from benchmarks.reward_model.recipe import MINIATURE, STANDARD, Recipe
from benchmarks.reward_model.results import Processes
from benchmarks.reward_model.scoring import on_ranks, same_bits
from planlang.runtime.simulate.run import whole

SET = "random"
_LIMIT = 500  # seconds for all processes of one plan


def compare_processes(recipe: Recipe, cache: Path, plan: Path, dtype: str, tp: int, seed: int) -> Processes:
    """Scores a set on `tp` processes and on as many simulated ranks.

    Raises:
        subprocess.SubprocessError: a process failed, or took too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(tp)]
        words += ["-m", "benchmarks.reward_model.processes", str(cache), str(plan), dtype, str(seed), folder]
        words += ["--miniature"] * (recipe == MINIATURE)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(words, check=True, timeout=_LIMIT, env=environment)
        real: list[Tensor] = [torch.load(Path(folder) / f"{rank}.pt", weights_only=True) for rank in range(tp)]
    model = with_weights(recipe, load_weights(cache, seed), dtype)
    simulated = on_ranks(model, plan, tp, sequences(recipe), recipe.micro_batch)
    differing = [int((~same_bits(one, other)).sum()) for one, other in zip(real, simulated, strict=True)]
    return Processes(
        plan=plan.stem, dtype=dtype, tp=tp, seed=seed, set=SET, scores=len(real[0]), differing=max(differing)
    )


def sequences(recipe: Recipe) -> Tensor:
    """The sequences of the set, pair after pair."""
    sets = frozen_sets(recipe.pairs)
    return sets.sequences[sets.pairs[SET].flatten()]


def main() -> None:
    """One rank: scores the set, and writes what it has."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reward_model.processes", description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("dtype")
    parser.add_argument("seed", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--miniature", action="store_true")
    arguments = parser.parse_args()
    recipe = MINIATURE if arguments.miniature else STANDARD
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
        model = with_weights(recipe, load_weights(arguments.cache, arguments.seed), arguments.dtype)
        planlang.parallelize(model, mesh, arguments.plan)
        with torch.no_grad():
            parts = torch.split(sequences(recipe), recipe.micro_batch)
            scores = torch.cat([whole(rewards(model, part)) for part in parts])
        torch.save(scores, arguments.folder / f"{dist.get_rank()}.pt")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
