"""Compiled plans have the styles of the dicts in `dicts.py`, module by module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache

import pytest
import torch
import transformers
from cases import MODELS, QWEN3, RIGHT_PLANS, plan_reference
from dicts import torch_plan
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle

import planlang

CLASSES = list(dict.fromkeys(model for model, _ in MODELS))
SIZES = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 8}


@cache
def model_of(cls: str) -> nn.Module:
    """A model of two layers without weights."""
    model_class = getattr(transformers, cls)
    with torch.device("meta"):
        return model_class(model_class.config_class(**SIZES, num_attention_heads=8, num_key_value_heads=4))


def by_module(plan: Mapping[str, ParallelStyle], cls: str) -> dict[str, str]:
    """The style of every module, as `parallelize_module` finds it: one `fnmatch` a segment."""
    found: dict[str, str] = {}
    for key, style in plan.items():
        names = list(matching(key, cls))
        assert names, f"{key} matches no module of {cls}"
        for name in names:
            assert name not in found, f"{key} reaches {name} for the second time"
            found[name] = repr(style)
    return found


def matching(key: str, cls: str) -> Iterator[str]:
    patterns = key.split(".")
    for name, _ in model_of(cls).named_modules():
        segments = name.split(".")
        if len(segments) == len(patterns) and all(map(fnmatchcase, segments, patterns)):
            yield name


@pytest.mark.parametrize(("plan", "cls"), [*((p, c) for p in RIGHT_PLANS for c in CLASSES), ("seed", QWEN3)])
def test_the_compiled_plan_is_the_one_written_by_hand(plan: str, cls: str) -> None:
    compiled = by_module(planlang.load(plan_reference(plan)).styles(model_of(cls)), cls)
    written = by_module(torch_plan(plan, cls), cls)
    assert compiled == written
