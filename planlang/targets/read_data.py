"""Reads the data that the targets `yaml` and `json` write: whatever it holds is used, or refused.

Every text in it is read alone by the language's own parser, so that none can bring along more than its own value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import Finding, did_you_mean, or_list
from planlang.layout import Layout
from planlang.plan import ir
from planlang.plan.arguments import Styles
from planlang.plan.documents import DocumentError, read_json, read_yaml, short
from planlang.plan.styles import Style, axis_of
from planlang.plan.values import Wrong, layout
from planlang.source import Source, Span, printable
from planlang.syntax import nodes
from planlang.syntax.fault import Fault
from planlang.syntax.keywords import KEYWORDS
from planlang.syntax.parser import parse_style, parse_target
from planlang.targets.data import SCHEMA

_TOP = ("schema", "name", "classes", "description", "mesh", "options", "decided", "entries")
_ENTRIES = {
    "rule": ("rule", "style", "override", "above", "behind", "level"),
    "drop": ("drop", "level"),
    "expect": ("expect", "in", "keywords", "out", "level"),
}
_WORD = re.compile(r"[A-Za-z_]\w*")


class _Bad(Exception):
    """Data that is no plan."""


def read_plan(source: Source) -> tuple[ir.Plan | None, tuple[Finding, ...]]:
    """The plan in a YAML or JSON text."""
    as_json = source.name.lower().endswith(".json")
    try:
        return _plan(read_json(source.text) if as_json else read_yaml(source.text)), ()
    except DocumentError as error:
        message = f"`{printable(source.name)}` cannot be read as {'JSON' if as_json else 'YAML'}: {error.problem}"
        at = None if error.at is None else min(error.at, len(source.text))
        place = None if at is None else source.place(Span(at, min(at + 1, len(source.text))))
        return None, (Finding(code=codes.BAD_PLAN_DATA, message=message, place=place),)
    except _Bad as error:
        help_ = f"such files are written by `planlang compile -t yaml`; their `schema` is `{SCHEMA}`"
        message = f"`{printable(source.name)}` is no resolved plan: {error}"
        return None, (Finding(code=codes.BAD_PLAN_DATA, message=message, help=help_),)


def _plan(data: Any) -> ir.Plan:
    top = _mapping(data, "the whole")
    if top.get("schema") != SCHEMA:
        raise _Bad(f"its `schema` is {short(top.get('schema'))}")
    _only(top, _TOP, "the whole")
    mesh = tuple(_axis(_mapping(axis, "an entry of `mesh`")) for axis in _list(top, "mesh")) or (ir.Axis(name="tp"),)
    names = [axis.name for axis in mesh]
    _no_repetition(names, "the mesh axis")
    classes = tuple(_word(name, "a class") for name in _texts(top, "classes"))
    _no_repetition(classes, "the class")
    entries = tuple(_read_entry(_mapping(entry, "an entry")) for entry in _list(top, "entries"))
    for entry in entries:
        axis = axis_of(entry.style) if isinstance(entry, ir.Rule) else None
        if axis is not None and axis not in names:
            raise _Bad(f"a rule acts on the mesh axis `{axis}`, and `mesh` has {or_list(names)}")
    return ir.Plan(
        name=_word(_text(top, "name"), "`name`"),
        classes=classes,
        description=tuple(_texts(top, "description")),
        mesh=mesh,
        options=tuple(_options(_mapping(top.get("options", {}), "`options`"))),
        decided=_read_decided(_mapping(top.get("decided", {}), "`decided`"), names),
        entries=entries,
    )


def _axis(data: Mapping[str, Any]) -> ir.Axis:
    _only(data, ("axis", "size"), "an entry of `mesh`")
    size = data.get("size")
    if size is not None:
        _size(size, "the size of a mesh axis")
    name = _word(_text(data, "axis"), "a mesh axis")
    if name in KEYWORDS:
        raise _Bad(f"a mesh axis is `{name}`, a word of the language")
    return ir.Axis(name=name, size=size)


def _size(size: Any, what: str) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise _Bad(f"{what} is {short(size)}, no whole number from 1")


def _options(data: Mapping[str, Any]) -> Iterator[tuple[str, bool | int | str]]:
    for name, value in data.items():
        if not isinstance(value, bool | int | str):
            raise _Bad(f"an option is {short(value)}")
        yield _word(name, "the name of an option"), value


def _read_decided(data: Mapping[str, Any], axes: Iterable[str]) -> ir.Decided:
    _only(data, ("sizes", "config"), "`decided`")
    sizes = _mapping(data.get("sizes", {}), "`sizes`")
    config = _mapping(data.get("config", {}), "`config`")
    _only(sizes, tuple(axes), "`sizes`")
    for size in sizes.values():
        _size(size, "a size in `decided`")
    for value in config.values():
        if not isinstance(value, bool | int | float | str | None):
            raise _Bad(f"a setting in `decided` is {short(value)}")
    return ir.Decided(sizes=tuple(sizes.items()), config=tuple(config.items()))


def _read_entry(data: Mapping[str, Any]) -> ir.Entry:
    level = data.get("level", 0)
    if not isinstance(level, int) or isinstance(level, bool) or level < 0:
        raise _Bad(f"`level` is {short(level)}")
    kinds = [kind for kind in _ENTRIES if kind in data]
    if len(kinds) != 1:
        raise _Bad("an entry is a `rule`, a `drop` or an `expect`")
    _only(data, _ENTRIES[kinds[0]], f"a `{kinds[0]}`")
    try:
        target = parse_target(_text(data, kinds[0]))
        if kinds == ["drop"]:
            return ir.Drop(target=target, level=level)
        if kinds == ["expect"]:
            keywords = _mapping(data.get("keywords", {}), "`keywords`")
            return ir.Expect(
                target=target,
                in_=tuple(map(_read_layout, _texts(data, "in"))),
                keywords=tuple((_word(name, "an input"), _layout(text)) for name, text in keywords.items()),
                out=tuple(map(_read_layout, _texts(data, "out"))),
                level=level,
            )
        if not isinstance(override := data.get("override", False), bool):
            raise _Bad(f"`override` is {short(override)}")
        return ir.Rule(
            target=target,
            style=_read_style(_mapping(data.get("style"), "`style`")),
            level=level,
            override=override,
            above=tuple(_texts(data, "above")),
            behind=_text(data, "behind") if "behind" in data else "",
        )
    except Fault as fault:
        raise _Bad(f"in {short(data[kinds[0]])}: {fault.message}") from None


def _read_style(data: Mapping[str, Any]) -> Style:
    name = _text(data, "name")
    head = parse_style(name)
    if head.arguments:
        raise _Bad(f"the `name` of a style is {short(name)}, and its arguments stand beside it")
    given = {key: value for key, value in data.items() if key != "name"}
    if head.path is not None and isinstance(given.get("arguments"), dict):
        _only(given, ("arguments",), "a style with `arguments`")
        given = dict(_mapping(given["arguments"], "`arguments`"))
    arguments = tuple(_argument(key, value) for key, value in given.items())
    problems: list[str] = []

    def report(code: Code, span: Span, message: str, help: str) -> None:
        problems.append(message)

    style = Styles(lets={}, report=report).resolve(replace(head, arguments=arguments))
    if style is None:
        raise _Bad(f"in the style {short(name)}: {problems[0]}")
    return style


def _argument(name: str, value: Any) -> nodes.Argument:
    """One argument, which its text must be alone."""
    _word(name, "an argument")
    if isinstance(value, dict):
        inputs = _mapping(value, f"`{name}`")
        for key, text in inputs.items():
            _argument(_word(key, "an input"), text)
        value = "{" + ", ".join(f"{key}: {_spelt(text)}" for key, text in inputs.items()) + "}"
    found = parse_style(f"style({name}={_spelt(value)})").arguments
    if len(found) != 1 or "#" in str(value).partition('"')[0]:
        raise _Bad(f"`{name}` is {short(value)}, which is not one value")
    return found[0]


def _spelt(value: Any) -> str:
    """The value of an argument as the language writes it."""
    if not isinstance(value, bool | int | str):
        raise _Bad(f"an argument is {short(value)}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_layout(text: str) -> Layout | None:
    return None if text == "none" else _layout(text)


def _layout(text: Any) -> Layout:
    if not isinstance(text, str):
        raise _Bad(f"a layout is {short(text)}")
    try:
        return layout(_argument("of", text).value)
    except Wrong as wrong:
        raise _Bad(f"{short(text)} {wrong.message}") from None


def _only(data: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """Refuses keys that would be ignored."""
    for key in data:
        if key not in known:
            raise _Bad(f"{what} has no key {short(key)}; {did_you_mean(key, known, f'it may have {or_list(known)}')}")


def _no_repetition(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _Bad(f"{what} `{name}` is named twice")
        seen.add(name)


def _word(text: str, what: str) -> str:
    if not _WORD.fullmatch(text):
        raise _Bad(f"{what} is {short(text)}, no identifier")
    return text


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
        raise _Bad(f"`{key}` is missing" if value is None else f"`{key}` is {short(value)}, no text")
    return value
