"""Resolved styles back as text: in a table, in data, in a message."""

from __future__ import annotations

from planlang.layout import Conversion, Layout
from planlang.plan.styles import Custom, Prepare, Scalar, Style, Tree, arguments_of
from planlang.syntax import nodes
from planlang.syntax.printer import scalar_text

_SILENT = {"axis": "tp", "invariant": "0", "reduce": str(Tree())}


def arguments_text(style: Style) -> dict[str, str]:
    """Every argument of a style as the language writes it, defaults too; those below only where they say something."""
    found: dict[str, str]
    match style:
        case Prepare():
            found = _prepare(style)
        case Custom():
            found = {name: _free_text(value) for name, value in style.arguments} | {"axis": style.axis}
        case _:
            found = _fields(style)
    return {name: text for name, text in found.items() if _SILENT.get(name) != text}


def style_text(style: Style) -> str:
    """A style as the language writes it, arguments that have their defaults left out."""
    if isinstance(style, Custom):
        head, default = f'custom "{style.path}"', {}
    elif isinstance(style, Prepare):
        head, default = style.word, {"local_in": "false", "local_out": "true"}
    else:
        head, default = style.word, arguments_text(type(style)())
    arguments = [f"{name}={text}" for name, text in arguments_text(style).items() if default.get(name) != text]
    return f"{head}({', '.join(arguments)})" if arguments else head


def _fields(style: Style) -> dict[str, str]:
    return {name: value_text(getattr(style, field.name)) for name, field in arguments_of(type(style)).items()}


def _free_text(value: Scalar | Layout) -> str:
    """An argument of a custom style, where a text is a text."""
    return f'"{value}"' if isinstance(value, str) else value_text(value)


def _prepare(style: Prepare) -> dict[str, str]:
    found: dict[str, str] = {}
    if style.keywords:
        found["in"] = "{" + ", ".join(f"{name}: {conversion}" for name, conversion in style.keywords) + "}"
    elif style.inputs:
        found["in"] = conversions_text(style.inputs)
    if style.outputs:
        found["out"] = conversions_text(style.outputs)
    if "in" in found:
        found["local_in"] = value_text(style.local_in)
    if "out" in found:
        found["local_out"] = value_text(style.local_out)
    found["axis"] = style.axis
    return found


def conversions_text(conversions: tuple[Conversion | None, ...]) -> str:
    """Conversions of positional tensors: one alone, or a tuple."""
    texts = ["none" if conversion is None else str(conversion) for conversion in conversions]
    return texts[0] if len(texts) == 1 and conversions[0] else f"({', '.join(texts)})"


def value_text(value: bool | int | str | Layout | Tree | None) -> str:
    """The value of an argument; a word of the language stands without quotes."""
    match value:
        case None:
            return "none"
        case bool() | int():
            return scalar_text(nodes.Scalar(value=value))
        case str():
            return value
        case _:
            return str(value)
