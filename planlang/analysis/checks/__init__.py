"""What is checked of every rule against the modules that it reaches: one file a family, each a function of a `Case`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planlang.analysis.checks.blocks import check_blocks
from planlang.analysis.checks.case import Case
from planlang.analysis.checks.layouts import check_calls, check_ranks
from planlang.analysis.checks.mixed import check_mixed
from planlang.analysis.checks.sizes import check_sizes
from planlang.analysis.checks.styles import check_styles
from planlang.analysis.checks.ties import check_ties
from planlang.diagnostics.finding import Finding

Check = Callable[[Case], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (check_styles, check_ranks, check_calls, check_sizes, check_blocks, check_mixed, check_ties)


def check(case: Case) -> Iterator[Finding]:
    """The findings of every check."""
    for one in CHECKS:
        yield from one(case)
