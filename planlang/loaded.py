"""A plan that was read: from a file, a bundled name, data or Python, with the options that the caller set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from planlang.analysis.decided import decided_otherwise
from planlang.compiler import Compiled, Settings, compile_plan, compile_program
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError, has_errors, in_order, or_list
from planlang.model import catalog
from planlang.model.tree import Tree
from planlang.model.trees import named_model
from planlang.plan import ir
from planlang.plan.files import Program
from planlang.plan.options import Value
from planlang.plan.resolve import Facts, resolve
from planlang.source import Source, printable
from planlang.syntax.nodes import PlanLine

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.tensor.parallel import ParallelStyle
    from transformers import PretrainedConfig

    Model: TypeAlias = str | os.PathLike[str] | Tree | PretrainedConfig | nn.Module

_PUBLISHED = re.compile(r"[\w.-]+/[\w.-]+")  # how the Hugging Face Hub names what somebody published


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A plan that was read, with the options that the caller set.

    Conditions on the model and on sizes are decided when it is compiled, so one `Plan` serves many models.

    Attributes:
        source: its text.
        content: the files as written, or the resolved plan where it was read from data.
        options: what the caller set.
        findings: what was found while reading.
    """

    source: Source
    content: Program | ir.Plan
    options: Mapping[str, Value] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        name, classes = self._title()
        made_for = f" for {', '.join(classes)}" if classes else ""
        return f"<Plan {name}{made_for}, {self.source.name}>"

    def _title(self) -> tuple[str, tuple[str, ...]]:
        if isinstance(self.content, ir.Plan):
            return self.content.name, self.content.classes
        statements = self.content.units[0].file.statements
        line = next((each for each in statements if isinstance(each, PlanLine)), None)
        return (line.name.text, tuple(name.text for name in line.classes)) if line else ("without a name", ())

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it was read from: its own, then what it extends."""
        units = self.content.units if isinstance(self.content, Program) else ()
        sources = [unit.source for unit in units] or [self.source]
        return tuple(source.path for source in sources if source.path)

    def with_options(self, options: Mapping[str, Value]) -> Plan:
        """The plan with more options set.

        Raises:
            PlanError: it was read from data or from Python, where no options are left to set.
        """
        if options and isinstance(self.content, ir.Plan):
            of_python = self.source.text == ""
            what = "is a plan in Python, which has no option" if of_python else "is resolved already, so its option"
            name = next(iter(options))
            message = (
                f"`{printable(self.source.name)}` {what} `{printable(name)}`{'' if of_python else ' cannot be set'}"
            )
            help_ = "leave it out" if of_python else "set it where the file is made"
            raise PlanError([Finding(code=codes.UNKNOWN_OPTION, message=message, help=help_)])
        return replace(self, options={**self.options, **options}) if options else self

    def checked(self) -> Plan:
        """Itself, unless something is wrong with it whatever it is compiled for.

        Raises:
            PlanError: a mistake in the text, in a style or an argument, or in the options that were set. Conditions
                that ask for a model or a size are left for `compile`, and so is what the patterns match.
        """
        findings = self.findings
        if isinstance(self.content, Program):
            _, found = resolve(self.content, Facts(options=self.options))
            findings = (*findings, *(each for each in found if each.code is not codes.UNDECIDED_CONDITION))
        if has_errors(findings):
            raise PlanError(in_order(findings))
        return self

    def compile(
        self, model: Model | None = None, *, tp: int | None = None, sizes: Mapping[str, int] | None = None
    ) -> Compiled:
        """The plan matched and checked against a model or against the classes that it names, with all findings.

        Args:
            model: a name of the catalog, a `config.json` or its folder, a configuration, or a module.
            tp: how many ranks the axis `tp` has.
            sizes: the same for any axes by name.

        Raises:
            PlanError: there is no such model.
        """
        known = {**(sizes or {}), **({} if tp is None else {"tp": tp})}
        for name, size in known.items():
            if not isinstance(size, int) or isinstance(size, bool):
                raise TypeError(f"the size of the mesh axis {name!r} is {size!r}, not a whole number")
            if size < 1:
                message = f"the mesh axis `{name}` cannot have {size} ranks"
                raise PlanError([Finding(code=codes.MESH_SIZE_CONFLICT, message=message, help="give 1 or more")])
        settings = Settings(model=None if model is None else tree_of(model), options=self.options, sizes=known)
        if isinstance(self.content, Program):
            return _without_needless(compile_program(self.content, settings, self.findings), tp)
        against = tuple(decided_otherwise(self.content, self.source.name, known, settings.model))
        if against:  # what it says of this model would be wrong
            findings = (*self.findings, *against)
            return Compiled(source=self.source, settings=settings, plan=self.content, findings=findings)
        return _without_needless(compile_plan(self.source, self.content, settings, self.findings), tp)

    def resolved(self, model: Model | None = None, *, tp: int | None = None) -> ir.Plan:
        """The resolved plan: conditions decided, includes merged, defaults filled in.

        Raises:
            PlanError: the plan has errors.
        """
        plan = self.compile(model, tp=tp).checked().plan
        assert plan is not None
        return plan

    def styles(self, model: Model | None = None, *, tp: int | None = None) -> dict[str, ParallelStyle]:
        """The plan as torch takes it: new objects of torch's own classes at every call.

        Args:
            model: for which model; without one, for any number of layers of the classes that the plan names.
            tp: how many ranks the axis `tp` has; sizes are checked where it is given.

        Returns:
            Styles by torch's keys: one `fnmatch` pattern a segment, no module reached twice.

        Raises:
            PlanError: the plan has errors.
        """
        from planlang.runtime.styles import build

        compiled = self.compile(model, tp=tp).checked()
        made = ((keyed.key, build(keyed.rule.style, keyed.rule.place)) for keyed in compiled.keys)
        return {key: style for key, style in made if style is not None}


def _without_needless(compiled: Compiled, tp: int | None) -> Compiled:
    """An error where a size was asked for that the plan has no use for."""
    plan = compiled.plan
    if tp is None or plan is None or plan.axis("tp"):
        return compiled
    axes = or_list([axis.name for axis in plan.mesh])
    message = f"tp={tp} is asked for, and the plan has no mesh axis `tp`"
    help_ = f"its mesh is {axes}: write the sizes into the plan, as `mesh ({plan.mesh[0].name}=2)`"
    finding = Finding(code=codes.UNKNOWN_AXIS, message=message, place=plan.place, help=help_)
    return replace(compiled, findings=in_order([*compiled.findings, finding]))


def tree_of(model: Model) -> Tree:
    """The module tree of whatever names or is a model.

    Raises:
        PlanError: there is no such model, or it cannot be built.
    """
    if isinstance(model, Tree):
        return model
    if isinstance(model, str | os.PathLike):
        return tree_named(os.fspath(model))
    from torch import nn

    from planlang.model.capture import CaptureError, capture_config, capture_module

    try:
        if isinstance(model, nn.Module):
            return capture_module(model)
        if not hasattr(model, "model_type"):
            wanted = "a name of the catalog, a path, a configuration of transformers or an `nn.Module`"
            raise TypeError(f"the model is {type(model).__name__!r}, not {wanted}")
        return capture_config(model)
    except CaptureError as error:
        raise PlanError([Finding(code=codes.UNKNOWN_ARCHITECTURE, message=str(error))]) from error


def tree_named(spec: str, cls: str | None = None) -> Tree:
    """The module tree of a name of the catalog, a `config.json` or its folder; `cls` is another class of it.

    Raises:
        PlanError: there is no such model, or it cannot be built.
    """
    found = named_model(spec, cls)
    if isinstance(found, Tree):
        return found
    if found.code is codes.UNKNOWN_MODEL and _PUBLISHED.fullmatch(spec) and not catalog.close_names(spec):
        message = f"`{spec}` is not in the catalog, and there is no file or folder of that name"
        help_ = f"give the path that `hf download {spec} config.json` prints; `planlang models` lists the catalog"
        found = Finding(code=found.code, message=message, help=help_)
    raise PlanError([found])
