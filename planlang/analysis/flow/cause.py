"""Who made a tensor lie as it does."""

from __future__ import annotations

from dataclasses import dataclass

from planlang.plan import ir
from planlang.plan.styles import Style


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule as it holds for a module; `rule` is `None` where styles are checked without a plan."""

    style: Style
    rule: ir.Rule | None = None

    def __hash__(self) -> int:  # by the object: rules hold syntax trees, and hashing those costs more than the check
        return id(self.rule) if self.rule else hash(self.style)


@dataclass(frozen=True, slots=True)
class Cause:
    """A module and the rule that it follows."""

    module: str
    applied: Applied
