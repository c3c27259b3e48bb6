"""A plan that is applied to a model of a class for which it was not written."""

from __future__ import annotations

from collections.abc import Sequence

from planlang import resources
from planlang.analysis.assign import Assignment
from planlang.analysis.names import model_text
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, or_list
from planlang.model.tree import Tree
from planlang.plan import ir
from planlang.plan.files import read_source
from planlang.source import Source
from planlang.syntax.nodes import PlanLine
from planlang.syntax.parser import parse


def for_other_model(plan: ir.Plan, model: Tree | None, assignments: Sequence[Assignment]) -> Finding | None:
    """An error where half of the plan's rules or more reach nothing, a warning where the class is merely not named.

    A plan that was read from Python names no class, and is for any.
    """
    if model is None or not plan.classes or model.cls in plan.classes:
        return None
    written = or_list(plan.classes)
    needed = [rule for rule in plan.rules if not rule.target.optional]
    lost = [entry for each in assignments for entry in each.unmatched if isinstance(entry, ir.Rule)]
    none = not any(region for assignment in assignments for _, region in assignment.reached)
    if plan.rules and (none or len(lost) * 2 >= max(len(needed), 1)):
        near = [name for name in resources.bundled_plans() if model.cls in _classes(name)]
        help_ = f"for this model there is {or_list(near)}" if near else "write a plan for this class"
        what = "no rule reaches" if none else f"{len(lost)} of {len(needed)} rules reach nothing in"
        message = f"{what} {model_text(model)}, a `{model.cls}`: the plan is written for {written}"
        return Finding(code=codes.PLAN_NOT_FOR_MODEL, message=message, place=plan.place, help=help_)
    message = f"the model is a `{model.cls}`, and the plan is written for {written}"
    base = _bundled(plan)
    own = f'write a plan of your own: `plan mine for {model.cls}`, and below it `extends "{base}"`'
    help_ = own if base else f"add `{model.cls}` to the `plan` line"
    return Finding(code=codes.OTHER_CLASS, message=message, place=plan.place, help=help_)


def _bundled(plan: ir.Plan) -> str:
    """The name of the bundled plan that this is; empty for a plan that a user may change."""
    path = plan.place.source.path if plan.place else None
    return next((name for name, file in resources.bundled_plans().items() if file == path), "")


def _classes(name: str) -> set[str]:
    source = read_source(resources.bundled_plans()[name])
    if not isinstance(source, Source):
        return set()
    file, _ = parse(source)
    return {cls.text for line in file.statements if isinstance(line, PlanLine) for cls in line.classes}
