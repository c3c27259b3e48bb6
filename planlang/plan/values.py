"""From written styles to resolved ones: names, arguments and their values are checked here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import did_you_mean, or_list
from planlang.layout import REDUCE_OPS, Conversion, Layout, Partial, Replicate, Shard
from planlang.plan.styles import STYLES, Custom, Prepare, Style, arguments_of
from planlang.source import Span
from planlang.syntax import nodes
from planlang.syntax.nodes import Call, Convert, Map, Scalar, Tuple, Value, Word

Report: TypeAlias = Callable[[Code, Span, str, str], None]
_LAYOUTS = "`replicate`, `shard(N)` or `partial`"
# What people bring along from torch.
_TORCH_STYLES = {
    "ColwiseParallel": "colwise",
    "RowwiseParallel": "rowwise",
    "SequenceParallel": "sequence",
    "PrepareModuleInput": "prepare",
    "PrepareModuleOutput": "prepare",
    "PrepareModuleInputOutput": "prepare",
}
_TORCH_ARGUMENTS = {
    "input_layouts": "in",
    "output_layouts": "out",
    "use_local_output": "local",
    "use_local_input": "local_in",
    "sequence_dim": "dim",
}
_PREPARE_FLAGS = ("local", "local_in", "local_out")


class Wrong(Exception):
    """A value that is not of its argument's kind."""

    def __init__(self, span: Span, message: str, help: str = "") -> None:
        super().__init__(message)
        self.span = span
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True)
class Styles:
    """What a style word may mean: the language's styles, and the plan's `let`s.

    Attributes:
        lets: by name; `None` for one that is wrong itself, so that its uses say nothing more.
        report: takes code, span, message and help of what is wrong.
    """

    lets: Mapping[str, nodes.Style | None]
    report: Report

    def resolve(self, node: nodes.Style) -> Style | None:
        """The style that a node means; `None` after a report."""
        written = self.expanded(node)
        if written is None:
            return None
        arguments = self._arguments(written)
        if arguments is None:
            return None
        if written.path is not None:
            return self._custom(written, arguments)
        cls = STYLES[written.word.text]
        return self._prepare(written, arguments) if cls is Prepare else self._plain(cls, arguments)

    def expanded(self, node: nodes.Style) -> nodes.Style | None:
        """The node with `let`s replaced by what they stand for."""
        word = node.word.text
        if node.path is not None or (word in STYLES and word not in ("custom",)):
            return node
        if word not in self.lets:
            help_ = did_you_mean(word, [*STYLES, *self.lets], f"the styles are {or_list(STYLES)}")
            if word in _TORCH_STYLES:
                help_ = f"torch's `{word}` is `{_TORCH_STYLES[word]}` here"
            self.report(codes.UNKNOWN_STYLE, node.word.span, f"there is no style `{word}`", help_)
            return None
        base = self.lets[word]
        if base is None:
            return None
        given = {argument.name.text for argument in node.arguments if argument.name}
        kept = tuple(a for a in base.arguments if a.name is None or a.name.text not in given)
        return replace(base, arguments=kept + node.arguments, span=node.span)

    def _arguments(self, node: nodes.Style) -> dict[str, nodes.Argument] | None:
        """The arguments by name; `None` after a report."""
        word = "custom" if node.path is not None else node.word.text
        known = [] if word == "custom" else list(arguments_of(STYLES[word]))
        if word == "prepare":
            known += [flag for flag in _PREPARE_FLAGS if flag not in known]
        found: dict[str, nodes.Argument] = {}
        unnamed: list[str] = []
        right = True
        for argument in node.arguments:
            if argument.name is None:
                free = [name for name in known if name not in found and name not in unnamed]
                help_ = f"write `{free[0]}=…`" if free else "write `name=value`"
                unnamed += free[:1]
                self.report(codes.BAD_ARGUMENT, argument.span, "an argument needs its name", help_)
            elif (known and argument.name.text not in known) or (not known and word != "custom"):
                otherwise = f"it takes {or_list(known)}" if known else "it takes none"
                ours = _TORCH_ARGUMENTS.get(argument.name.text, "")
                help_ = f"torch's `{argument.name.text}` is `{ours}` here" if ours in known else ""
                help_ = help_ or did_you_mean(argument.name.text, known, otherwise)
                message = f"`{word}` has no argument `{argument.name.text}`"
                self.report(codes.UNKNOWN_ARGUMENT, argument.name.span, message, help_)
            elif argument.name.text in found:
                message = f"`{argument.name.text}` is given twice"
                self.report(codes.REPEATED_ARGUMENT, argument.name.span, message, "remove one")
            else:
                found[argument.name.text] = argument
                continue
            right = False
        return found if right else None

    def _plain(self, cls: type[Style], arguments: Mapping[str, nodes.Argument]) -> Style | None:
        fields = arguments_of(cls)
        values = {
            fields[name].name: self._read(each, fields[name].metadata["kind"]) for name, each in arguments.items()
        }
        return None if _WRONG in values.values() else cls(**values)

    def _prepare(self, node: nodes.Style, arguments: Mapping[str, nodes.Argument]) -> Prepare | None:
        values: dict[str, Any] = {}
        for name, argument in arguments.items():
            if name == "in" and isinstance(argument.value, Map):
                kind, field = "keywords", "keywords"
            else:
                kind = {"in": "conversions", "out": "conversions", "axis": "axis"}.get(name, "flag")
                field = {"in": "inputs", "out": "outputs"}.get(name, name)
            values[field] = self._read(argument, kind)
        if _WRONG in values.values():
            return None
        sides = [side for side in ("in", "out") if side in arguments]
        if not sides:
            message = "`prepare` converts nothing: it has neither `in` nor `out`"
            self.report(codes.MISSING_ARGUMENT, node.span, message, "write `in=replicate -> shard(1)` or the like")
            return None
        if "local" in values:
            if len(sides) == 2:
                span = arguments["local"].span
                message = "with both `in` and `out`, `local` could mean either side"
                self.report(codes.BAD_ARGUMENT, span, message, "write `local_in` or `local_out`")
                return None
            values[f"local_{sides[0]}"] = values.pop("local")
        for side in ("in", "out"):
            if side not in sides and f"local_{side}" in arguments:
                span = arguments[f"local_{side}"].span
                message = f"`local_{side}` is set, but `{side}` is not given"
                self.report(codes.BAD_ARGUMENT, span, message, f"give `{side}`, or remove it")
                return None
        return Prepare(**values)

    def _custom(self, node: nodes.Style, arguments: Mapping[str, nodes.Argument]) -> Custom | None:
        assert node.path is not None
        path = str(node.path.value)
        module, colon, name = path.partition(":")
        names = [*module.split("."), *name.split(".")]
        if not colon or not all(part.isidentifier() for part in names):
            message = f"`{path}` does not name a class"
            self.report(codes.BAD_ARGUMENT, node.path.span, message, 'write `custom "package.module:Class"`')
            return None
        values: list[tuple[str, Any]] = []
        axis = "tp"
        for name, argument in arguments.items():
            value = self._read(argument, "axis" if name == "axis" else "free")
            if value is _WRONG:
                return None
            if name == "axis":
                axis = value
            else:
                values.append((name, value))
        return Custom(path=path, arguments=tuple(values), axis=axis)

    def _read(self, argument: nodes.Argument, kind: str) -> Any:
        assert argument.name is not None
        try:
            return _READERS[kind](argument.value)
        except Wrong as wrong:
            message = f"`{argument.name.text}` {wrong.message}"
            self.report(codes.BAD_ARGUMENT, wrong.span, message, wrong.help)
            return _WRONG


_WRONG = object()


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


_READERS: dict[str, Callable[[Value], Any]] = {
    "layout": layout,
    "conversions": _conversions,
    "keywords": _keywords,
    "flag": _flag,
    "dim": _dim,
    "grad": _grad,
    "axis": _axis,
    "free": _free,
}
