"""The floating-point sums that cross ranks, and what they say of a plan.

Floating-point addition depends on its order, and the order of a sum over ranks on how many there are. A plan without
such sums gives the same numbers at every size of the mesh, as far as the kernels on a rank do: a product of another
width may run in another kernel, which adds in an order of its own. The invariant styles keep both fixed, and a plan is
called `invariant` only where every computation that it splits is under one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from planlang.analysis.cost.ledger import Entry, Ledger
from planlang.layout import Partial

Grade = Literal["invariant", "forward-invariant", "variant"]


@dataclass(frozen=True, slots=True)
class Reductions:
    """The sums of a plan.

    Attributes:
        grade: `invariant` where no sum depends on the number of ranks, nor the width of a product;
            `forward-invariant` where no sum in the forward pass does; else `variant`.
            `None` where it cannot be told: on one rank, or of a plan that is not right.
        sums: those whose order matters.
        fixed: those that are added up in one order whatever the number of ranks, the tree of an invariant style.
        exact: those that add one number to zeros, as a lookup in a cut vocabulary does, so that order cannot matter.
        complete: whether the plan is right, so that no sum is missing.
    """

    grade: Grade | None
    sums: tuple[Entry, ...]
    fixed: tuple[Entry, ...]
    exact: tuple[Entry, ...]
    complete: bool


def reductions(ledgers: Iterable[Ledger]) -> Reductions:
    """The sums of all mesh axes.

    Args:
        ledgers: one for each axis.
    """
    found = tuple(ledgers)
    crossing = [entry for ledger in found for entry in ledger.entries if _adds(entry)]
    sums = tuple(entry for entry in crossing if not entry.exact and not entry.tree)
    fixed = tuple(entry for entry in crossing if entry.tree)
    exact = tuple(entry for entry in crossing if entry.exact)
    complete = all(ledger.complete for ledger in found)
    known = complete and any(ledger.ranks > 1 for ledger in found)
    widths = any(ledger.widths for ledger in found)
    return Reductions(_grade(sums, widths=widths) if known else None, sums, fixed, exact, complete)


def _grade(sums: Iterable[Entry], *, widths: bool) -> Grade:
    phases = {entry.phase for entry in sums}
    if not phases and not widths:
        return "invariant"
    return "variant" if "forward" in phases else "forward-invariant"


def _adds(entry: Entry) -> bool:
    """Whether it is a floating-point sum or mean; the largest or smallest of numbers has no order."""
    return entry.is_float and isinstance(entry.source, Partial) and entry.source.op in ("sum", "avg")
