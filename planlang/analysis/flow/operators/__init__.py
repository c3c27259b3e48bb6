"""What operators do to layouts: small pure rules, one table.

A rule gets the operator's inputs as `Operand`s and answers with the layout of each output, for local data on which the
operator simply runs. It raises `Refusal` where the result would not be a layout of what the single device computes.
DTensor's own sharding rules are the oracle that these are tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from planlang.analysis.flow.operators import (
    attention,
    contractions,
    convolutions,
    creation,
    indexing,
    pointwise,
    reductions,
    views,
    writing,
)
from planlang.analysis.flow.operators.base import Operand, Refusal, Run
from planlang.layout import Layout

Rule: TypeAlias = Callable[[Run], tuple[Layout, ...]]
_MODULES = (pointwise, reductions, views, indexing, contractions, convolutions, attention, creation, writing)
RULES: Mapping[str, Rule] = {name: rule for module in _MODULES for name, rule in module.RULES.items()}

__all__ = ["RULES", "Operand", "Refusal", "Rule", "Run", "rule_of"]


def rule_of(name: str) -> Rule | None:
    """The rule of an operator by its public name, `torch.Tensor.view` or `torch.nn.functional.linear`."""
    return RULES.get(name.rpartition(".")[2].strip("_") or name)
