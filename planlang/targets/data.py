"""The resolved plan as plain data, and back: what the targets `yaml` and `json` write and `planlang.load` reads.

The shape is versioned by `schema`. Patterns, layouts and conversions stand in it as the language writes them, so a
reader needs no second notation, and reading goes through the language's own checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import Finding
from planlang.layout import Layout
from planlang.plan import ir
from planlang.plan.arguments import Styles
from planlang.plan.spell import arguments_text
from planlang.plan.styles import Custom, Prepare, Style
from planlang.plan.values import Wrong, layout
from planlang.source import Source, Span
from planlang.syntax.fault import Fault
from planlang.syntax.parser import parse_style, parse_target
from planlang.syntax.printer import target_text

SCHEMA = "planlang/plan/1"


def to_data(plan: ir.Plan) -> dict[str, Any]:
    """The plan as dicts, lists and scalars."""
    return {
        "schema": SCHEMA,
        "name": plan.name,
        "classes": list(plan.classes),
        "description": list(plan.description),
        "mesh": [{"axis": axis.name, "size": axis.size} for axis in plan.mesh],
        "options": dict(plan.options),
        **_decided(plan.decided),
        "entries": [_entry(entry) for entry in plan.entries],
    }


def _decided(decided: ir.Decided) -> dict[str, Any]:
    """What the conditions were decided with; nothing where they asked for no size and no setting."""
    parts = {"sizes": dict(decided.sizes), "config": dict(decided.config)}
    found = {name: values for name, values in parts.items() if values}
    return {"decided": found} if found else {}


def _entry(entry: ir.Entry) -> dict[str, Any]:
    target = target_text(entry.target)
    match entry:
        case ir.Rule():
            data: dict[str, Any] = {"rule": target, "style": _style(entry.style)}
            if entry.override:
                data["override"] = True
            if entry.above:
                data["above"] = list(entry.above)
            if entry.behind:
                data["behind"] = entry.behind
        case ir.Drop():
            data = {"drop": target}
        case ir.Expect():
            data = {"expect": target}
            if entry.in_:
                data["in"] = [_layout(item) for item in entry.in_]
            if entry.keywords:
                data["keywords"] = {name: str(item) for name, item in entry.keywords}
            if entry.out:
                data["out"] = [_layout(item) for item in entry.out]
    if entry.level:
        data["level"] = entry.level
    return data


def _style(style: Style) -> dict[str, Any]:
    head = f'custom "{style.path}"' if isinstance(style, Custom) else style.word
    data: dict[str, Any] = {"name": head}
    for name, text in arguments_text(style).items():
        if isinstance(style, Prepare) and name == "in" and style.keywords:
            data[name] = {keyword: str(conversion) for keyword, conversion in style.keywords}
        else:
            data[name] = _SCALARS.get(text) if text in _SCALARS else int(text) if _is_number(text) else text
    return data


_SCALARS = {"true": True, "false": False}


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _layout(item: Layout | None) -> str:
    return "none" if item is None else str(item)


def emit_json(plan: ir.Plan) -> str:
    """The plan as JSON."""
    return json.dumps(to_data(plan), indent=2, ensure_ascii=False) + "\n"


def emit_yaml(plan: ir.Plan) -> str:
    """The plan as YAML."""
    return yaml.safe_dump(to_data(plan), sort_keys=False, allow_unicode=True, width=120)


class _Bad(Exception):
    """Data that is no plan."""


def read_plan(source: Source) -> tuple[ir.Plan | None, tuple[Finding, ...]]:
    """The plan in a YAML or JSON text."""
    try:
        data = json.loads(source.text) if source.name.endswith(".json") else yaml.safe_load(source.text)
        return _plan(data), ()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or str(error) or "it is nested too deep"
        message = f"`{source.name}` cannot be read as {'JSON' if source.name.endswith('.json') else 'YAML'}: {problem}"
        return None, (
            Finding(code=codes.BAD_PLAN_DATA, message=message.partition("\n")[0], place=_mark(source, error)),
        )
    except _Bad as error:
        help_ = f"such files are written by `planlang compile -t yaml`; their `schema` is `{SCHEMA}`"
        message = f"`{source.name}` is no resolved plan: {error}"
        return None, (Finding(code=codes.BAD_PLAN_DATA, message=message, help=help_),)


def _mark(source: Source, error: Exception) -> Any:
    mark = getattr(error, "problem_mark", None)
    at = mark.index if mark is not None else error.pos if isinstance(error, json.JSONDecodeError) else None
    return None if at is None else source.place(Span(at, min(at + 1, len(source.text))))


def _plan(data: Any) -> ir.Plan:
    top = _mapping(data, "the whole")
    if top.get("schema") != SCHEMA:
        raise _Bad(f"its `schema` is {top.get('schema')!r}")
    name = _text(top, "name")
    if not name.isidentifier():
        raise _Bad(f"`name` is {name!r}, no identifier")
    return ir.Plan(
        name=name,
        classes=tuple(_texts(top, "classes")),
        description=tuple(_texts(top, "description")),
        mesh=tuple(_axis(_mapping(axis, "an entry of `mesh`")) for axis in _list(top, "mesh")) or (ir.Axis(name="tp"),),
        options=tuple(_options(_mapping(top.get("options", {}), "`options`"))),
        decided=_read_decided(_mapping(top.get("decided", {}), "`decided`")),
        entries=tuple(_read_entry(_mapping(entry, "an entry")) for entry in _list(top, "entries")),
    )


def _axis(data: Mapping[str, Any]) -> ir.Axis:
    size = data.get("size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise _Bad(f"the size of a mesh axis is {size!r}")
    return ir.Axis(name=_text(data, "axis"), size=size)


def _options(data: Mapping[str, Any]) -> list[tuple[str, bool | int | str]]:
    for value in data.values():
        if not isinstance(value, bool | int | str):
            raise _Bad(f"an option is {value!r}")
    return list(data.items())


def _read_decided(data: Mapping[str, Any]) -> ir.Decided:
    sizes = _mapping(data.get("sizes", {}), "`sizes`")
    config = _mapping(data.get("config", {}), "`config`")
    for size in sizes.values():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise _Bad(f"a size in `decided` is {size!r}")
    for value in config.values():
        if not isinstance(value, bool | int | float | str | None):
            raise _Bad(f"a setting in `decided` is {value!r}")
    return ir.Decided(sizes=tuple(sizes.items()), config=tuple(config.items()))


def _read_entry(data: Mapping[str, Any]) -> ir.Entry:
    level = data.get("level", 0)
    if not isinstance(level, int) or isinstance(level, bool) or level < 0:
        raise _Bad(f"`level` is {level!r}")
    kinds = [kind for kind in ("rule", "drop", "expect") if kind in data]
    if len(kinds) != 1:
        raise _Bad("an entry is a `rule`, a `drop` or an `expect`")
    try:
        target = parse_target(_text(data, kinds[0]))
        if kinds == ["drop"]:
            return ir.Drop(target=target, level=level)
        if kinds == ["expect"]:
            keywords = _mapping(data.get("keywords", {}), "`keywords`")
            return ir.Expect(
                target=target,
                in_=tuple(map(_read_layout, _texts(data, "in"))),
                keywords=tuple((name, _whole_layout(text)) for name, text in keywords.items()),
                out=tuple(map(_read_layout, _texts(data, "out"))),
                level=level,
            )
        return ir.Rule(
            target=target,
            style=_read_style(_mapping(data.get("style"), "`style`")),
            level=level,
            override=data.get("override") is True,
            above=tuple(_texts(data, "above")),
            behind=_text(data, "behind") if "behind" in data else "",
        )
    except Fault as fault:
        raise _Bad(f"in `{data[kinds[0]]}`: {fault.message}") from None


def _read_style(data: Mapping[str, Any]) -> Style:
    arguments = [f"{name}={_spelt(value)}" for name, value in data.items() if name != "name"]
    text = _text(data, "name") + (f"({', '.join(arguments)})" if arguments else "")
    problems: list[str] = []

    def report(code: Code, span: Span, message: str, help: str) -> None:
        problems.append(message)

    style = Styles(lets={}, report=report).resolve(parse_style(text))
    if style is None:
        raise _Bad(f"in `{text}`: {problems[0]}")
    return style


def _spelt(value: Any) -> str:
    """The value of an argument as the language writes it."""
    if isinstance(value, bool | int | str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return "{" + ", ".join(f"{name}: {_spelt(item)}" for name, item in _mapping(value, "an argument").items()) + "}"


def _read_layout(text: str) -> Layout | None:
    return None if text == "none" else _whole_layout(text)


def _whole_layout(text: Any) -> Layout:
    if not isinstance(text, str):
        raise _Bad(f"a layout is {text!r}")
    argument = parse_style(f"layout(of={text})").arguments[0]
    try:
        return layout(argument.value)
    except Wrong as wrong:
        raise _Bad(f"`{text}` {wrong.message}") from None


def _mapping(data: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise _Bad(f"{what} is not a mapping with names")
    return data


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise _Bad(f"`{key}` is not a list")
    return value


def _texts(data: Mapping[str, Any], key: str) -> list[str]:
    values = _list(data, key)
    if not all(isinstance(value, str) for value in values):
        raise _Bad(f"`{key}` holds something that is no text")
    return values


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise _Bad(f"`{key}` is missing" if value is None else f"`{key}` is {value!r}, no text")
    return value
