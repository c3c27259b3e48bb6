"""A plan checked, and run on the small model of a configuration: whether the two agree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn

import planlang
from planlang.analysis.flow.applied import applied_styles
from planlang.analysis.flow.words import star
from planlang.checker import Report, check
from planlang.model.pretrained import config_from, default_class
from planlang.runtime.simulate import Outcome, Truth, simulate, truth
from tests.cases import CORPUS
from tests.simulate.twins import fill

CONFIGS = CORPUS / "configs"
RUNS = ((2, 2, 1), (4, 3, 11))  # ranks, batch, length: a single token, and what neither ranks nor batch divide
TOLERANCE = 1e-5  # transformers' norms are computed in float32


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a plan.

    Attributes:
        reports: what the checker says, for each of `RUNS`.
        outcomes: what the ranks computed, for each of `RUNS`.
    """

    reports: tuple[Report, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def proved(self) -> bool:
        """Whether the checker finds the plan right on any number of ranks."""
        return all(report.proved for report in self.reports)

    @property
    def right(self) -> bool:
        """Whether the ranks computed what one device computes, in every run."""
        return all(outcome.verdict == "right" for outcome in self.outcomes)

    @property
    def wrong_gradients(self) -> set[str]:
        """The parameters whose gradients came out wrong; layers that are alike are one."""
        return {star(wrong.name) for outcome in self.outcomes for wrong in outcome.gradients}

    @property
    def foretold_gradients(self) -> set[str]:
        """Those of which the checker says so; layers that are alike are one."""
        passes = [walked for report in self.reports for checked in report.checked for _, walked in checked.passes]
        return {star(w.parameter.name) for walked in passes for w, _ in walked.wrong if w.parameter is not None}


def trial(plan: Path, named: str, config: str, cls: str | None = None) -> Trial:
    """Checks a plan on one model, and runs it on a small one of the same class.

    Args:
        plan: its file.
        named: the model that it is checked on.
        config: the name of a configuration in `corpus/configs`: the model that it is run on.
        cls: which class of `named`.
    """
    reports = [check(planlang.load(plan), named, tp=ranks, cls=cls)[0] for ranks, _, _ in RUNS]
    outcomes = [outcome(plan, config, *run) for run in RUNS]
    return Trial(tuple(reports), tuple(outcomes))


def outcome(plan: Path, config: str, ranks: int, batch: int = 3, length: int = 10, *, retie: bool = True) -> Outcome:
    """What the ranks compute."""
    make, known = partial(model, config), right(config, batch, length)
    compiled = planlang.load(plan).compile(make(), tp=ranks)
    styles = {name: applied.style for name, applied in applied_styles(compiled.assignments[0], "tp").items()}
    return simulate(make, styles, ranks, known.inputs, retie=retie, tolerance=TOLERANCE, right=known)


def model(config: str) -> nn.Module:
    """A fresh model in float64, in evaluation mode; always the same for the same configuration."""
    return copy.deepcopy(_built(config))


@cache
def _built(name: str) -> nn.Module:
    config = config_from(json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8")))
    config._attn_implementation, config.use_cache = "sdpa", False
    built: nn.Module = default_class(config)(config).double().eval()
    fill(built)
    return built


@cache
def right(config: str, batch: int, length: int) -> Truth:
    """What one device computes."""
    source = torch.Generator().manual_seed(7)
    ids: Tensor = torch.randint(2, 64, (batch, length), generator=source)
    make: Callable[[], nn.Module] = partial(model, config)
    return truth(make, {"input_ids": ids})
