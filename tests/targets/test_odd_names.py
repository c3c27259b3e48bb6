"""Modules whose names hold what torch reads as a pattern, or what Python must escape."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest
from torch import nn

import planlang

NAMES = ("a[b]", "x*", "q?", '"', "n\nl", "[", "]", "\\", "ü", "{}")


class Odd(nn.Module):
    """A layer under each name, and a norm whose name the pattern `x*` would match."""

    def __init__(self) -> None:
        super().__init__()
        layers: dict[str, nn.Module] = {name: nn.Linear(4, 4) for name in NAMES}
        self.d = nn.ModuleDict(layers | {"xy": nn.LayerNorm(4), "ab": nn.LayerNorm(4), "qq": nn.LayerNorm(4)})


@pytest.fixture
def keys() -> dict[str, object]:
    plan = planlang.loads("plan odd for Odd\n\nd.* is Linear: colwise(out=replicate)\n")
    found: dict[str, object] = {}
    exec(planlang.compile(plan, model=Odd(), tp=2), found)
    made: dict[str, object] = found["odd"]()  # type: ignore[operator]
    assert list(made) == list(plan.styles(Odd(), tp=2))
    return made


def test_each_key_means_one_module(keys: dict[str, object]) -> None:
    reached = [name for key in keys for name in Odd().d if fnmatch(name, key.removeprefix("d."))]
    assert sorted(reached) == sorted(NAMES)
