"""What a plan may be named by: a file, a bundled name, data, a dotted path; each is read as a `Plan`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from planlang import resources
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError, did_you_mean
from planlang.loaded import Plan
from planlang.plan.files import load as load_program
from planlang.plan.files import near_plans, read_source
from planlang.plan.options import Value
from planlang.source import Source, printable

_DATA_SUFFIXES = (".yaml", ".yml", ".json")


def open_plan(x: str | os.PathLike[str], options: Mapping[str, Value], *, beside: Path | None = None) -> Plan:
    """What `load` reads; mistakes in the text are among the plan's findings, so that compiling it finds the others too.

    Args:
        x: see `load`.
        options: see `load`.
        beside: the folder that a path is relative to.

    Raises:
        PlanError: there is no such file or name, or it is no text.
    """
    reference = text_of(x, "a plan", "a path, the name of a bundled plan or a dotted path")
    path = (beside / reference) if beside else Path(reference)
    bundled = resources.bundled_plans()
    if other := _no_reference(reference):
        raise PlanError([other])
    if path.suffix.lower() in _DATA_SUFFIXES:
        return _from_data(_read(path), options)
    if path.suffix == resources.PLAN_SUFFIX or isinstance(x, os.PathLike) or os.sep in reference:
        return parsed(_read(path, _bundled_name(path)), options)
    if reference in bundled:
        return parsed(_read(bundled[reference], f"plan {reference}"), options)
    if _is_dotted(reference):
        return _from_python(reference, options)
    if _is_file(path):
        return parsed(_read(path), options)
    otherwise = f"the bundled plans are {', '.join(f'`{name}`' for name in bundled)}"
    message = f"`{printable(reference)}` is neither a file, a bundled plan nor a dotted path"
    help_ = did_you_mean(reference, bundled, otherwise)
    raise PlanError([Finding(code=codes.UNKNOWN_PLAN, message=message, help=help_)])


def text_of(x: object, what: str, wanted: str) -> str:
    """A path or a name as text.

    Raises:
        TypeError: it is neither.
    """
    found = os.fspath(x) if isinstance(x, str | os.PathLike) else x
    if not isinstance(found, str):
        raise TypeError(f"{what} is {wanted}, not {type(x).__name__!r}")
    return found


def checked_options(options: Mapping[str, Value]) -> Mapping[str, Value]:
    """The options themselves.

    Raises:
        TypeError: one is of a type that the language has no values of.
    """
    for name, value in options.items():
        if not isinstance(value, bool | int | str):
            raise TypeError(f"the option {name!r} is a bool, an int or a str, not {type(value).__name__!r}")
    return options


def _no_reference(reference: str) -> Finding | None:
    """What is neither the path nor the name of a plan, though it looks like somebody's idea of one."""
    if "\n" in reference:
        message = "what has several lines is the text of a plan, not the name of one"
        return Finding(code=codes.UNKNOWN_PLAN, message=message, help="read it with `planlang.loads(text)`")
    path = Path(reference)
    if path.suffix == ".py":
        message = f"`{printable(reference)}` is a file of Python, which is named by a dotted path and not read"
        help_ = f"name the plan in it: `{path.stem}.NAME`, such as `{path.stem}.PLAN`, with its folder on the path"
        return Finding(code=codes.UNRESOLVED_PATH, message=message, help=help_)
    return None


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
        raise PlanError([source if source.help else replace(source, help=near_plans(path, str(path)))])
    return source


def parsed(source: Source, options: Mapping[str, Value]) -> Plan:
    """A text in the language as a plan; mistakes in it are among the findings of the plan."""
    program, findings = load_program(source)
    return Plan(source, program, options, findings)


def _from_data(source: Source, options: Mapping[str, Value]) -> Plan:
    from planlang.targets.read_data import read_plan

    plan, findings = read_plan(source)
    if plan is None:
        raise PlanError(findings)
    return Plan(source, plan, {}, findings).with_options(options)


def _from_python(reference: str, options: Mapping[str, Value]) -> Plan:
    try:
        from planlang.runtime.dotted import imported_plan
    except ImportError as error:
        message = f"a plan in Python, as `{reference}` names one, needs torch: {error}"
        raise PlanError([Finding(code=codes.UNRESOLVED_PATH, message=message, help="install torch")]) from error
    return Plan(*imported_plan(reference)).with_options(options)
