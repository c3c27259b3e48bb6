"""What a compiled plan can be written as: one literal table, each target imported when it is used."""

from __future__ import annotations

from planlang.compiler import Compiled
from planlang.diagnostics.finding import Finding

TARGETS = ("python", "yaml", "json")


def emit(compiled: Compiled, target: str) -> str:
    """The text of a target.

    Raises:
        PlanError: the plan has errors.
        ValueError: there is no such target.
    """
    plan = compiled.checked().plan
    assert plan is not None
    match target:
        case "python":
            from planlang.targets import python

            return python.emit(compiled)
        case "yaml":
            from planlang.targets import data

            return data.emit_yaml(plan)
        case "json":
            from planlang.targets import data

            return data.emit_json(plan)
        case _:
            raise ValueError(f"{target!r} is none of {TARGETS}")


def check(compiled: Compiled, target: str) -> tuple[Finding, ...]:
    """What a target cannot say of a plan, or needs for it."""
    if target != "python" or compiled.plan is None:
        return ()
    from planlang.targets import python

    return tuple(python.check(compiled))
