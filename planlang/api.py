"""The Python functions: load a plan, make torch's styles of it, apply it to a model.

What the command line prints as findings these raise as one `PlanError` with all of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from planlang import targets
from planlang.analysis.regions import concrete
from planlang.compiler import Compiled
from planlang.diagnostics import codes
from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding, PlanError, did_you_mean, has_errors
from planlang.loaded import Plan, open_plan, parsed
from planlang.plan import ir
from planlang.plan.files import read_source
from planlang.plan.options import Value
from planlang.plan.styles import Skip, Style, axis_of
from planlang.source import Place, Source

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh

    from planlang.loaded import Model

_log = logging.getLogger("planlang")


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
    return _sound(parsed(Source(name, text), options))


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


def _plan(x: str | os.PathLike[str] | Plan, options: Mapping[str, Value]) -> Plan:
    if isinstance(x, Plan):
        return replace(x, options={**x.options, **options}) if options else x
    return _sound(open_plan(x, options))


def _sound(plan: Plan) -> Plan:
    """The plan, if it could be read without an error."""
    if has_errors(plan.findings):
        raise PlanError(plan.findings)
    return plan


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
