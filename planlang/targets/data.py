"""The resolved plan as plain data: what the targets `yaml` and `json` write; `read_data.py` reads it back.

The shape is versioned by `schema`. Patterns, layouts and conversions stand in it as the language writes them, so a
reader needs no second notation, and reading goes through the language's own checks.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from planlang.layout import Layout
from planlang.plan import ir
from planlang.plan.spell import arguments_text
from planlang.plan.styles import Custom, Prepare, Style
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
    data: dict[str, Any] = {}
    for name, text in arguments_text(style).items():
        if isinstance(style, Prepare) and name == "in" and style.keywords:
            data[name] = {keyword: str(conversion) for keyword, conversion in style.keywords}
        else:
            data[name] = _SCALARS.get(text) if text in _SCALARS else int(text) if _is_number(text) else text
    # A style of the user's own may have an argument `name`.
    return {"name": head, **({"arguments": data} if "name" in data else data)}


_SCALARS = {"true": True, "false": False}


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _layout(item: Layout | None) -> str:
    return "none" if item is None else str(item)


def emit_json(plan: ir.Plan) -> str:
    """The plan as JSON."""
    text = json.dumps(to_data(plan), indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair by its escape


def emit_yaml(plan: ir.Plan) -> str:
    """The plan as YAML."""
    return yaml.safe_dump(to_data(plan), sort_keys=False, allow_unicode=True, width=120)
