"""From written styles to resolved ones: names, arguments and their values are checked here."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import did_you_mean, or_list
from planlang.plan.styles import STYLES, Custom, Prepare, Style, arguments_of, blocks_of
from planlang.plan.values import READERS, Wrong
from planlang.source import Span
from planlang.syntax import nodes
from planlang.syntax.nodes import Map

Report: TypeAlias = Callable[[Code, Span, str, str], None]

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


@dataclass(frozen=True, slots=True)
class Styles:
    """What a style word may mean: the language's styles, and the plan's `let`s.

    Attributes:
        lets: by name; `None` for one that is wrong itself, so that its uses say nothing more.
        report: takes code, span, message and help of what is wrong.
        options: the plan's options and their values, which an argument that is a number or a flag may name.
    """

    lets: Mapping[str, nodes.Style | None]
    report: Report
    options: Mapping[str, bool | int | str] = field(default_factory=dict)

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
        if _WRONG in values.values():
            return None
        style = cls(**values)
        if "reduce" in arguments and not blocks_of(style):
            span, help_ = arguments["reduce"].span, "write `invariant=8` beside it, or remove it"
            self.report(codes.BAD_ARGUMENT, span, "`reduce` is for styles with `invariant`", help_)
            return None
        return style

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
        if not colon or not all(part.isidentifier() and not keyword.iskeyword(part) for part in names):
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
            return READERS[kind](self._chosen(argument.value) if kind in _OPTIONAL else argument.value)
        except Wrong as wrong:
            message = f"`{argument.name.text}` {wrong.message}"
            self.report(codes.BAD_ARGUMENT, wrong.span, message, wrong.help)
            return _WRONG

    def _chosen(self, value: nodes.Value) -> nodes.Value:
        """The value of the option that stands there by its name; else what stands there."""
        if isinstance(value, nodes.Word) and value.text in self.options:
            return nodes.Scalar(value=self.options[value.text], span=value.span)
        return value


_WRONG = object()
_OPTIONAL = ("blocks", "dim", "flag")
