"""The whole compiler on one screen: read, parse, resolve, match, check; the targets emit what comes out.

Every stage returns values and findings, and no stage raises for a user's mistake. Read this file first, then
`syntax/nodes.py` (what was written), `plan/ir.py` (what it means), `model/tree.py` (what it is about) and one target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from planlang.analysis.alternatives import check_alternatives
from planlang.analysis.assign import Assignment, assign, needless, no_rules, unmatched
from planlang.analysis.checks import check
from planlang.analysis.checks.case import Case
from planlang.analysis.classes import known_class
from planlang.analysis.foreign import for_other_model
from planlang.analysis.keys import Keyed, merged_keys
from planlang.analysis.regions import Sites
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError, has_errors, in_order, new_places
from planlang.model.tree import Tree
from planlang.plan import ir
from planlang.plan.files import Program, load
from planlang.plan.resolve import Facts, resolve
from planlang.source import Source, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the caller decides.

    Attributes:
        model: the model to compile for; without one, a plan is compiled for the classes that it names.
        options: the plan's options by name: values, or texts as `-D` gives them.
        sizes: how many ranks each mesh axis has.
    """

    model: Tree | None = None
    options: Mapping[str, bool | int | str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What comes out.

    Attributes:
        source: the text of the plan.
        settings: what the caller decided.
        plan: the resolved plan; `None` where the text holds none.
        assignments: the rule of every module, one for the model or for each class.
        keys: torch's keys, in the order of the plan.
        findings: everything that was found, by place.
    """

    source: Source
    settings: Settings
    plan: ir.Plan | None
    assignments: tuple[Assignment, ...] = ()
    keys: tuple[Keyed, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is an error, so that nothing may be emitted."""
        return self.plan is None or has_errors(self.findings)

    def checked(self) -> Compiled:
        """Itself.

        Raises:
            PlanError: there is an error.
        """
        if self.failed:
            raise PlanError(self.findings)
        return self


def compile_source(source: Source, settings: Settings = Settings()) -> Compiled:
    """Compiles a text."""
    program, findings = load(source)
    return compile_program(program, settings, findings)


def compile_program(program: Program, settings: Settings, earlier: tuple[Finding, ...] = ()) -> Compiled:
    """Compiles what was read; `earlier` is what was found while reading."""
    config = settings.model.config if settings.model else None
    plan, found = resolve(program, Facts(options=settings.options, sizes=settings.sizes, config=config))
    return compile_plan(program.source, plan, settings, (*earlier, *found))


def compile_plan(
    source: Source, plan: ir.Plan | None, settings: Settings, earlier: tuple[Finding, ...] = ()
) -> Compiled:
    """Matches and checks a resolved plan."""
    findings = list(earlier)
    if plan is None:
        return Compiled(source=source, settings=settings, plan=None, findings=in_order(findings))
    settings = replace(settings, sizes={**dict(plan.decided.sizes), **settings.sizes})
    trees, missing = _trees(plan, settings)
    if not settings.model and not plan.classes:
        findings.append(_of_no_class(source, plan))
    sites = [Sites(tree) for tree in trees]
    assignments = tuple(assign(plan, each) for each in sites)
    foreign = for_other_model(plan, settings.model, assignments)
    if foreign and has_errors([foreign]):
        return Compiled(source=source, settings=settings, plan=plan, findings=in_order([*findings, foreign]))
    sizes = {axis.name: size for axis in plan.mesh if (size := axis.size or settings.sizes.get(axis.name))}
    whole = not has_errors(findings)
    findings += missing + ([foreign] if foreign else [])
    findings += unmatched(plan, assignments)
    for assignment in assignments:
        findings += new_places(findings, [*assignment.findings, *check(Case(assignment, sizes, whole))])
    findings += needless(assignments)
    findings += check_alternatives(plan, sites)
    keys, clashes = merged_keys(assignments)
    if assignments and not keys and not has_errors(findings):
        findings.append(no_rules(plan, [site.tree for site in sites]))
    return Compiled(
        source=source,
        settings=settings,
        plan=plan,
        assignments=assignments,
        keys=keys,
        findings=in_order([*findings, *clashes]),
    )


def _trees(plan: ir.Plan, settings: Settings) -> tuple[list[Tree], list[Finding]]:
    """The model, or the classes that the plan names, as far as they are known."""
    if settings.model:
        return [settings.model], []
    places = plan.class_places or (None,) * len(plan.classes)
    found = [known_class(name, place) for name, place in zip(plan.classes, places, strict=True)]
    return [tree for tree in found if isinstance(tree, Tree)], [each for each in found if isinstance(each, Finding)]


def _of_no_class(source: Source, plan: ir.Plan) -> Finding:
    """A plan from Python, or the data of one, has patterns for any model; alone they stand for nothing."""
    return Finding(
        code=codes.UNKNOWN_CLASS,
        message=f"`{printable(source.name)}` names no model class, so without a model its patterns cannot be expanded",
        place=plan.place,
        help="give a model: `--model …`, or `model` in Python",
    )


def read(path: Path, name: str = "") -> Source:
    """The text of a plan file.

    Raises:
        PlanError: it cannot be read.
    """
    from planlang.plan.files import read_source

    source = read_source(path, name)
    if isinstance(source, Finding):
        raise PlanError([source])
    return source
