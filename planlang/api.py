"""The Python functions: load a plan, make torch's styles of it, apply it to a model.

What the command line prints as findings these raise as one `PlanError` with all of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from planlang import resources, targets
from planlang.analysis.regions import concrete
from planlang.compiler import Compiled, Settings, compile_plan, compile_program
from planlang.diagnostics import codes
from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding, PlanError, did_you_mean, has_errors
from planlang.model.tree import Tree
from planlang.model.trees import named_model
from planlang.plan import ir
from planlang.plan.files import Program, read_source
from planlang.plan.files import load as load_program
from planlang.plan.options import Value
from planlang.plan.styles import Skip, Style, axis_of
from planlang.source import Place, Source

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import ParallelStyle
    from transformers import PretrainedConfig

    Model: TypeAlias = str | Tree | PretrainedConfig | nn.Module

_DATA_SUFFIXES = (".yaml", ".yml", ".json")
_log = logging.getLogger("planlang")


@dataclass(frozen=True, slots=True)
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
            if size < 1:
                message = f"the mesh axis `{name}` cannot have {size} ranks"
                raise PlanError([Finding(code=codes.MESH_SIZE_CONFLICT, message=message, help="give 1 or more")])
        settings = Settings(model=None if model is None else tree_of(model), options=self.options, sizes=known)
        if isinstance(self.content, Program):
            return compile_program(self.content, settings, self.findings)
        return compile_plan(self.source, self.content, settings, self.findings)

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


def load(x: str | os.PathLike[str], /, **options: Value) -> Plan:
    """Reads a plan.

    Args:
        x: a path to a `.plan`, or to the `.yaml` or `.json` of a resolved plan; the name of a bundled plan; or a dotted
            path `package.module.attribute` to a dict of torch's styles, or to a function that returns one.
        options: the plan's options by name.

    Raises:
        PlanError: it cannot be read, or has a mistake in it.
    """
    return _sound(open_plan(x, options))


def loads(text: str, /, *, name: str = "<string>", **options: Value) -> Plan:
    """Reads a plan from a text in the language; `extends` in it is relative to the working directory."""
    return _sound(_parsed(Source(name, text), options))


def load_config(path: str | os.PathLike[str], key: str, /, **options: Value) -> Plan:
    """Reads the plan that a YAML configuration names.

    Args:
        path: the configuration.
        key: where the plan stands in it, `policy.dtensor_cfg.custom_parallel_plan`; a path there is relative to `path`.
        options: the plan's options by name.

    Raises:
        PlanError: there is no such file, key or plan.
    """
    source = read_source(Path(path))
    if isinstance(source, Finding):
        raise PlanError([source])
    value = _value_at(source, key)
    if not isinstance(value, str):
        message = f"`{key}` in `{source.name}` is {_described(value)}, not the path or name of a plan"
        raise PlanError([Finding(code=codes.BAD_CONFIGURATION, message=message, help="write a path to a `.plan` file")])
    return _sound(open_plan(value, options, beside=Path(path).parent))


def compile(
    x: str | os.PathLike[str] | Plan,
    /,
    *,
    target: str = "python",
    model: Model | None = None,
    tp: int | None = None,
    **options: Value,
) -> str:
    """The text that a target makes of a plan: `python`, `yaml` or `json`.

    Raises:
        PlanError: the plan has errors.
        ValueError: there is no such target.
    """
    compiled = _plan(x, options).compile(model, tp=tp)
    findings = (*compiled.findings, *targets.check(compiled, target))
    if has_errors(findings):
        raise PlanError(findings)
    return targets.emit(compiled, target)


def parallelize(model: nn.Module, mesh: DeviceMesh, x: str | os.PathLike[str] | Plan, /, **options: Value) -> nn.Module:
    """Applies a plan to a model, in place.

    The plan is matched and checked against the model itself first. Tied weights stay tied and frozen ones frozen.

    Args:
        model: the model; its parameters on the mesh's kind of device, or on `meta`.
        mesh: a one-dimensional mesh, or a larger one that has the plan's axis among its names.
        x: a plan, or what `load` takes.
        options: the plan's options by name.

    Returns:
        `model`.

    Raises:
        PlanError: the plan has errors, the mesh does not fit, the model is parallel already, or torch refused a rule.
    """
    from planlang.runtime.apply import apply

    plan = _plan(x, options)
    compiled = plan.compile(model, sizes=_sizes(mesh)).checked()
    for finding in compiled.findings:
        if finding.severity is Severity.WARNING:
            _log.warning("%s", finding)
    placed: dict[str, tuple[Style, Place | None]] = {}
    for keyed_rule, names in _modules(compiled):
        for name in names:
            placed[name] = (keyed_rule.style, keyed_rule.place)
    axes = dict.fromkeys(axis for style, _ in placed.values() if (axis := axis_of(style)))
    return apply(model, mesh, placed, axes=tuple(axes) or ("tp",))


def _sizes(mesh: DeviceMesh) -> dict[str, int]:
    """How many ranks each dimension of a mesh has, by name; one dimension without a name counts as `tp`."""
    names = mesh.mesh_dim_names or (("tp",) if mesh.ndim == 1 else ())
    return dict(zip(names, mesh.shape, strict=False))


def _modules(compiled: Compiled) -> list[tuple[ir.Rule, list[str]]]:
    """Every rule with the full names of the modules that follow it."""
    assignment = compiled.assignments[0]
    return [
        (piece.rule, list(concrete(site, piece.box)))
        for site in assignment.sites.all
        for piece in assignment.rule_of(site)
        if not isinstance(piece.rule.style, Skip)
    ]


def tree_of(model: Model) -> Tree:
    """The module tree of whatever names or is a model.

    Raises:
        PlanError: there is no such model, or it cannot be built.
    """
    if isinstance(model, Tree):
        return model
    if isinstance(model, str | os.PathLike):
        found = named_model(os.fspath(model))
        if isinstance(found, Finding):
            raise PlanError([found])
        return found
    from torch import nn

    from planlang.model.capture import CaptureError, capture_config, capture_module

    if isinstance(model, nn.Module):
        return capture_module(model, f"this `{type(model).__name__}`")
    try:
        return capture_config(model, name=f"this `{type(model).__name__}`")
    except CaptureError as error:
        raise PlanError([Finding(code=codes.UNKNOWN_ARCHITECTURE, message=str(error))]) from error


def _plan(x: str | os.PathLike[str] | Plan, options: Mapping[str, Value]) -> Plan:
    if isinstance(x, Plan):
        return replace(x, options={**x.options, **options}) if options else x
    return _sound(open_plan(x, options))


def _sound(plan: Plan) -> Plan:
    """The plan, if it could be read without an error."""
    if has_errors(plan.findings):
        raise PlanError(plan.findings)
    return plan


def open_plan(x: str | os.PathLike[str], options: Mapping[str, Value], *, beside: Path | None = None) -> Plan:
    """What `load` reads; mistakes in the text are among the plan's findings, so that compiling it finds the others too.

    Args:
        x: see `load`.
        options: see `load`.
        beside: the folder that a path is relative to.

    Raises:
        PlanError: there is no such file or name, or it is no text.
    """
    reference = os.fspath(x)
    path = (beside / reference) if beside else Path(reference)
    bundled = resources.bundled_plans()
    if path.suffix in _DATA_SUFFIXES:
        return _from_data(_read(path), options)
    if path.suffix == resources.PLAN_SUFFIX or isinstance(x, os.PathLike) or os.sep in reference:
        return _parsed(_read(path, _bundled_name(path)), options)
    if reference in bundled:
        return _parsed(_read(bundled[reference], f"plan {reference}"), options)
    if _is_dotted(reference):
        from planlang.runtime.dotted import imported_plan

        return Plan(*imported_plan(reference))
    if _is_file(path):
        return _parsed(_read(path), options)
    otherwise = f"the bundled plans are {', '.join(f'`{name}`' for name in bundled)}"
    message = f"`{reference}` is neither a file, a bundled plan nor a dotted path"
    help_ = did_you_mean(reference, bundled, otherwise)
    raise PlanError([Finding(code=codes.UNKNOWN_PLAN, message=message, help=help_)])


def _bundled_name(path: Path) -> str:
    return f"plan {path.stem}" if resources.bundled_plans().get(path.stem) == path else ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or holds NUL
        return False


def _is_dotted(reference: str) -> bool:
    parts = reference.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def _read(path: Path, name: str = "") -> Source:
    source = read_source(path, name)
    if isinstance(source, Finding):
        raise PlanError([source])
    return source


def _parsed(source: Source, options: Mapping[str, Value]) -> Plan:
    program, findings = load_program(source)
    return Plan(source, program, options, findings)


def _from_data(source: Source, options: Mapping[str, Value]) -> Plan:
    from planlang.targets.data import read_plan

    plan, findings = read_plan(source)
    if plan is None:
        raise PlanError(findings)
    if options:
        name = next(iter(options))
        message = f"`{source.name}` is resolved already, so its option `{name}` cannot be set"
        raise PlanError([Finding(code=codes.UNKNOWN_OPTION, message=message, help="set it where the file is made")])
    return Plan(source, plan, {}, findings)


def _value_at(source: Source, key: str) -> Any:
    try:
        value: Any = yaml.safe_load(source.text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or type(error).__name__
        message = f"`{source.name}` is no YAML: {problem}"
        raise PlanError([Finding(code=codes.BAD_CONFIGURATION, message=message)]) from error
    seen: list[str] = []
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            where = f"`{'.'.join(seen)}`" if seen else f"`{source.name}`"
            names = [str(name) for name in value] if isinstance(value, dict) else []
            message = f"{where} has no key `{part}`"
            help_ = did_you_mean(part, names, "name the key with dots: `policy.dtensor_cfg.custom_parallel_plan`")
            raise PlanError([Finding(code=codes.BAD_CONFIGURATION, message=message, help=help_)])
        value = value[part]
        seen.append(part)
    return value


def _described(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "empty" if value is None else repr(value)
