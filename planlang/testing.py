"""For the test suites of those who use plans: assertions that print what `planlang` finds.

from planlang.testing import assert_plan_verifies

def test_my_plan() -> None:
    assert_plan_verifies("my.plan", "Qwen/Qwen3-8B", tp=[2, 4])
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planlang.diagnostics.finding import PlanError, in_order
from planlang.diagnostics.render import render
from planlang.verifier import Verified, verify

if TYPE_CHECKING:
    from planlang.loaded import Model, Plan

__all__ = ["assert_plan_verifies"]


def assert_plan_verifies(
    plan: Plan | str | os.PathLike[str],
    model: Model,
    *,
    tp: int | Sequence[int] | None = None,
    cls: str | None = None,
    full: bool = False,
    processes: int = 0,
    device: str = "cpu",
) -> Verified:
    """Asserts that a plan computes what one device computes, in all circumstances of `planlang.verify`.

    Args:
        plan: as for `planlang.verify`, as are the others.
        model: which model.
        tp: how many ranks, or several numbers of them.
        cls: which class of a named model.
        full: the real widths.
        processes: real processes instead of ranks in this one.
        device: what real processes compute on.

    Returns:
        What was found: every run with its numbers, and warnings and notes.

    Raises:
        AssertionError: a run is wrong, the plan has errors, or there is no such plan or model; the message has the
            findings as `planlang verify` prints them.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    try:
        found = verify(plan, model, tp=tp, cls=cls, full=full, processes=processes, device=device)
    except PlanError as error:
        raise AssertionError(str(error)) from None
    if not found.ok:
        text = render(in_order(found.findings), "full") or "nothing was run: the plan has no rule for this model"
        raise AssertionError(f"the plan does not verify on {found.model}\n\n{text}")
    return found
