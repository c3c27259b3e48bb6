"""The Python functions: load a plan, make torch's styles of it, apply it to a model.

What the command line prints as findings these raise as one `PlanError` with all of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planlang import targets
from planlang.analysis.regions import concrete
from planlang.compiler import Compiled
from planlang.diagnostics import codes
from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding, PlanError, did_you_mean, has_errors
from planlang.loaded import Plan
from planlang.opening import checked_options, open_plan, parsed, text_of
from planlang.plan import ir
from planlang.plan.documents import DocumentError, read_yaml, short
from planlang.plan.files import read_source
from planlang.plan.options import Value
from planlang.plan.styles import Skip, Style, axis_of
from planlang.source import Place, Source, Span, printable

if TYPE_CHECKING:
    from torch import Tensor, nn
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
        PlanError: it cannot be read, or has a mistake that shows without a model: in its text, in a style or an
            argument, in the options. What needs a model or sizes is found where those are given: by `Plan.styles`,
            `compile` and `parallelize`.
    """
    return open_plan(x, checked_options(options)).checked()


def loads(text: str, /, *, name: str = "<string>", **options: Value) -> Plan:
    """Reads a plan from a text in the language; `extends` in it is relative to the working directory.

    Raises:
        PlanError: as for `load`.
    """
    if not isinstance(text, str):
        raise TypeError(f"the text of a plan is a str, not {type(text).__name__!r}")
    return parsed(Source(name, text), checked_options(options)).checked()


def load_config(
    config: str | os.PathLike[str] | Mapping[Any, Any],
    key: str,
    /,
    *,
    beside: str | os.PathLike[str] | None = None,
    **options: Value,
) -> Plan:
    """Reads the plan that a configuration names.

    Args:
        config: a YAML file, or a configuration that was read already: a dict, an OmegaConf container.
        key: where the plan stands in it, `policy.dtensor_cfg.custom_parallel_plan`.
        beside: the folder that a path there is relative to: that of the file, or the working directory.
        options: the plan's options by name.

    Raises:
        PlanError: there is no such file, key or plan; or as for `load`.
    """
    if not isinstance(key, str):
        raise TypeError(f"the key is a str such as 'policy.plan', not {type(key).__name__!r}")
    if isinstance(config, Mapping):
        name, content, folder = "the configuration", config, None
    else:
        path = Path(text_of(config, "a configuration", "a path or a mapping"))
        name, content, folder = f"`{printable(str(path))}`", _content(path), path.parent
    value = _value_at(content, name, key)
    if not isinstance(value, str):
        message = f"`{key}` in {name} is {_described(value)}, not the path or name of a plan"
        raise PlanError([Finding(code=codes.BAD_CONFIGURATION, message=message, help="write a path to a `.plan` file")])
    beside = folder if beside is None else Path(text_of(beside, "`beside`", "the path of a folder"))
    return open_plan(value, checked_options(options), beside=beside).checked()


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
    if target not in targets.TARGETS:
        raise ValueError(f"{target!r} is none of {targets.TARGETS}")
    compiled = _plan(x, options).compile(model, tp=tp).checked()
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
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh

    from planlang.runtime.apply import apply

    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is an `nn.Module`, not {type(model).__name__!r}")
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"the mesh is a `DeviceMesh`, as `init_device_mesh` makes it, not {type(mesh).__name__!r}")
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


def clip_grad_norm_(model: nn.Module, max_norm: float) -> Tensor:
    """Scales all gradients of a model in place, so that their norm together is at most `max_norm`.

    For a model under any plan, also under `fully_shard`, and for plain gradients beside DTensors. The bits of the norm
    do not depend on the number of ranks of the plan's axis where those of the gradients do not. A gradient that is
    split by a rule without `invariant` is gathered for it.

    Args:
        model: the whole model, with the same parameters on every rank.
        max_norm: the largest 2-norm.

    Returns:
        The norm before, a plain tensor without dimensions, the same on every rank.
    """
    from torch import nn

    from planlang.runtime.invariant import clipping

    if not isinstance(model, nn.Module):
        raise TypeError(f"it takes the model, an `nn.Module`, not {type(model).__name__!r}")
    return clipping.clip_grad_norm_(model, max_norm)


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
        return x.with_options(checked_options(options))
    return open_plan(x, checked_options(options))


def _content(path: Path) -> Any:
    """What a YAML file holds."""
    source = read_source(path)
    if isinstance(source, Finding):
        raise PlanError([source])
    try:
        return read_yaml(source.text)
    except DocumentError as error:
        message = f"`{printable(source.name)}` is no YAML: {error.problem}"
        place = None if error.at is None else source.place(Span(error.at, error.at + 1))
        raise PlanError([Finding(code=codes.BAD_CONFIGURATION, message=message, place=place)]) from error


def _value_at(content: Any, name: str, key: str) -> Any:
    value = content
    seen: list[str] = []
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            where = f"`{'.'.join(seen)}`" if seen else name
            names = [str(each) for each in value] if isinstance(value, Mapping) else []
            message = f"{where} has no key `{part}`"
            help_ = did_you_mean(part, names, "name the key with dots: `policy.dtensor_cfg.custom_parallel_plan`")
            raise PlanError([Finding(code=codes.BAD_CONFIGURATION, message=message, help=help_)])
        value = value[part]
        seen.append(part)
    return value


def _described(value: Any) -> str:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    return "empty" if value is None else short(value)
