"""The values of arguments: layouts, conversions, numbers and flags, each read from what was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planlang.diagnostics.finding import did_you_mean, or_list
from planlang.layout import REDUCE_OPS, Conversion, Layout, Partial, Replicate, Shard
from planlang.plan.styles import ACCUMULATORS, Tree
from planlang.source import Span
from planlang.syntax.nodes import Argument, Call, Convert, Map, Scalar, Tuple, Value, Word

_LAYOUTS = "`replicate`, `shard(N)` or `partial`"


class Wrong(Exception):
    """A value that is not of its argument's kind."""

    def __init__(self, span: Span, message: str, help: str = "") -> None:
        super().__init__(message)
        self.span = span
        self.message = message
        self.help = help


def layout(value: Value) -> Layout:
    """The layout that a value means.

    Raises:
        Wrong: where it means none.
    """
    match value:
        case Word(text="replicate"):
            return Replicate()
        case Word(text="partial"):
            return Partial()
        case Call(word="shard", values=(Scalar(value=int() as dim),)) if not isinstance(dim, bool):
            return Shard(dim)
        case Call(word="partial", values=(Word(text=op),)):
            for known in REDUCE_OPS:
                if op == known:
                    return Partial(known)
            raise Wrong(value.span, f"reduces by `{op}`", f"torch reduces by {or_list(REDUCE_OPS)}")
        case Word(text="shard") | Call(word="shard"):
            raise Wrong(
                value.span,
                "must say which dim is sharded, as one whole number",
                "write `shard(0)`, or `shard(-1)` for the last",
            )
        case Word(text=text) | Call(word=text):
            help_ = did_you_mean(text, ("replicate", "shard", "partial"), f"write {_LAYOUTS}")
            raise Wrong(value.span, f"must be a layout, and `{text}` is none", help_)
        case Convert():
            raise Wrong(value.span, "must be one layout, not a conversion", "`->` belongs to `prepare`")
        case _:
            raise Wrong(value.span, "must be a layout", f"write {_LAYOUTS}")


def _conversion(value: Value) -> Conversion:
    if isinstance(value, Convert):
        return Conversion(layout(value.source), layout(value.target))
    found = layout(value)
    raise Wrong(
        value.span,
        "must say from what to what",
        f"write `{found} -> {found}` where nothing changes but the kind of tensor",
    )


def _optional_conversion(value: Value) -> Conversion | None:
    return None if value == Word(text="none") else _conversion(value)


def _conversions(value: Value) -> tuple[Conversion | None, ...]:
    if isinstance(value, Map):
        raise Wrong(value.span, "has no names for outputs", "write a tuple, one entry for each output")
    if isinstance(value, Tuple):
        if not value.values:
            raise Wrong(
                value.span, "is an empty tuple", "write one entry for each tensor, `none` for one that is left alone"
            )
        return tuple(map(_optional_conversion, value.values))
    return (_conversion(value),)


def _keywords(value: Value) -> tuple[tuple[str, Conversion], ...]:
    assert isinstance(value, Map)
    if not value.entries:
        raise Wrong(value.span, "is an empty map", "write `{hidden_states: replicate -> shard(1)}` or the like")
    found: dict[str, Conversion] = {}
    for entry in value.entries:
        if entry.name.text in found:
            raise Wrong(entry.name.span, f"names `{entry.name.text}` twice", "remove one")
        if entry.value == Word(text="none"):
            raise Wrong(
                entry.value.span, f"leaves `{entry.name.text}` alone", "an input that is not named is left alone anyway"
            )
        found[entry.name.text] = _conversion(entry.value)
    return tuple(found.items())


def _flag(value: Value) -> bool:
    if isinstance(value, Scalar) and isinstance(value.value, bool):
        return value.value
    lower = isinstance(value, Word) and value.text in ("True", "False")
    raise Wrong(value.span, "must be `true` or `false`", "they begin in lower case" if lower else "")


def _dim(value: Value) -> int:
    if isinstance(value, Scalar) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    raise Wrong(value.span, "must be the number of a dimension", "dims count from 0, and from -1 backwards")


def _grad(value: Value) -> str:
    if isinstance(value, Word) and value.text in ("sum", "none"):
        return value.text
    raise Wrong(
        value.span, "must be `sum` or `none`", "`sum` adds the gradients of the ranks up, `none` takes them as they are"
    )


def _blocks(value: Value) -> int:
    number = value.value if isinstance(value, Scalar) and not isinstance(value.value, bool) else None
    if isinstance(number, int) and number > 0 and not number & (number - 1):
        return number
    found = f", and {number} is none" if isinstance(number, int) else ""
    raise Wrong(
        value.span,
        f"must be a number of blocks, which is a power of two{found}",
        "write `invariant=8`: each number of ranks up to 8 that divides it then gives the same bits",
    )


def _tree(value: Value) -> Tree:
    match value:
        case Word(text="tree") | Call(word="tree", values=()):
            return Tree()
        case Call(word="tree", values=(Argument(name=name, value=Word(text=acc)),)) if name and name.text == "acc":
            for known in ACCUMULATORS:
                if acc == known:
                    return Tree(known)
            raise Wrong(value.span, f"adds in `{acc}`", f"sums are added in {or_list(ACCUMULATORS)}")
        case _:
            raise Wrong(value.span, "must be an order of sums", "write `tree`, or `tree(acc=float32)`")


def _axis(value: Value) -> str:
    if isinstance(value, Word):
        return value.text
    raise Wrong(value.span, "must be the name of a mesh axis", "names stand without quotes: `axis=tp`")


def _free(value: Value) -> bool | int | str | Layout | None:
    match value:
        case Scalar():
            return value.value
        case Word(text="none"):
            return None
        case Word() | Call():
            return layout(value)
        case _:
            raise Wrong(value.span, "must be a number, a string, `true`, `false`, `none` or a layout")


READERS: dict[str, Callable[[Value], Any]] = {
    "layout": layout,
    "conversions": _conversions,
    "keywords": _keywords,
    "flag": _flag,
    "dim": _dim,
    "grad": _grad,
    "axis": _axis,
    "blocks": _blocks,
    "reduce": _tree,
    "free": _free,
}
