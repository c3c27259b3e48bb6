"""The target `python`: a module with the plan as torch's styles, which imports torch alone wherever it can."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import assert_never

from planlang.analysis.keys import Keyed
from planlang.analysis.names import is_nameless
from planlang.compiler import Compiled
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, or_list
from planlang.layout import Conversion, Layout, Partial, Replicate, Shard
from planlang.model.tree import Tree
from planlang.plan import ir
from planlang.plan.conditions import spelt
from planlang.plan.styles import (
    Attention,
    Colwise,
    Custom,
    Prepare,
    Replicated,
    Rowwise,
    Scalar,
    Sequence,
    Skip,
    Style,
    axis_of,
    blocks_of,
)
from planlang.source import Source
from planlang.targets.expressions import WIDTH, Expression, call, lines, mapping, printable, quoted, sequence
from planlang.version import __version__

_PLACEMENTS = "torch.distributed.tensor"
_STYLES = "torch.distributed.tensor.parallel"
_OWN = "planlang"
# What the module itself uses, so that a plan of that name needs another.
_TAKEN = frozenset(("PLAN", "dict", "str", "name", "AttributeError", "__getattr__", "__name__"))


def check(compiled: Compiled) -> Iterator[Finding]:
    """What this target cannot say, and what it needs."""
    assert compiled.plan is not None
    axes: dict[str, ir.Rule] = {}
    for keyed in compiled.keys:
        axis = axis_of(keyed.rule.style)
        if axis:
            axes.setdefault(axis, keyed.rule)
    if len(axes) > 1:
        rule = list(axes.values())[1]
        message = f"torch applies a plan to one mesh axis, and this one uses {or_list(axes).replace(' or ', ' and ')}"
        yield Finding(code=codes.SEVERAL_AXES, message=message, place=rule.place, help="write a plan for each axis")
    own = next((each.rule for each in compiled.keys if _is_own(each.rule.style)), None)
    if own:
        what = f"{own.style.word}(invariant={blocks})" if (blocks := blocks_of(own.style)) else own.style.word
        message = f"torch has no style `{what}`, so the emitted module imports planlang"
        yield Finding(
            code=codes.IMPORTS_PLANLANG,
            message=message,
            place=own.place,
            help="install planlang where the module is used",
        )


def _is_own(style: Style) -> bool:
    return isinstance(style, Replicated) or blocks_of(style) > 0


def emit(compiled: Compiled) -> str:
    """The text of the module: the same bytes for the same plan, model, options and version."""
    plan = compiled.checked().plan
    assert plan is not None
    imports = _Imports()
    imports.name(_STYLES, "ParallelStyle")
    body = list(_entries(compiled, imports))
    function = f"{plan.name}_" if keyword.iskeyword(plan.name) or plan.name in imports.taken() else plan.name
    decided = " for what is said above" if _decided(plan) else ""
    return "\n".join(
        [
            *_docstring(compiled, plan),
            "",
            *imports.lines(),
            "",
            "",
            f"def {function}() -> dict[str, ParallelStyle]:",
            f'    """The plan{decided}, with styles of its own on every call."""',
            *(["    return {", *body, "    }"] if body else ["    return {}"]),
            "",
            "",
            "PLAN: dict[str, ParallelStyle]",
            "",
            "",
            "def __getattr__(name: str) -> dict[str, ParallelStyle]:",
            '    """`PLAN` is a new dict each time, so whoever reads it may change it."""',
            '    if name == "PLAN":',
            f"        return {function}()",
            '    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")',
            "",
        ]
    )


def _docstring(compiled: Compiled, plan: ir.Plan) -> list[str]:
    settings = compiled.settings
    facts = [f"For {_made_for(settings.model, plan)}."] if settings.model or plan.classes else []
    sizes = {axis.name: axis.size or settings.sizes.get(axis.name) for axis in plan.mesh}
    axes = ", ".join(name if size is None else f"{name}={size}" for name, size in sizes.items())
    facts.append(f"Mesh: {axes}.")
    if plan.options:
        facts.append(f"Options: {', '.join(f'{name}={_option(value)}' for name, value in plan.options)}.")
    if _decided(plan):
        facts.append(f"Its conditions were decided for {_decided(plan)}: it is not for others.")
    text = [f"The tensor-parallel plan `{plan.name}`.", ""]
    if plan.description:
        text += [*plan.description, ""]
    text += [*facts, _origin(compiled.source)]
    escaped = [printable(line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')).rstrip() for line in text]
    return [f'"""{escaped[0]}', *escaped[1:], '"""']


def _decided(plan: ir.Plan) -> str:
    """The sizes and settings that the conditions of the plan were decided for."""
    sizes = [f"{name}={size}" for name, size in plan.decided.sizes]
    return ", ".join([*sizes, *(f"config.{name}={spelt(value)}" for name, value in plan.decided.config)])


def _made_for(model: Tree | None, plan: ir.Plan) -> str:
    """The classes; for one model its class, and what it is called."""
    if model is None:
        return ", ".join(plan.classes)
    name = "" if is_nameless(model) else _within(model.name)
    return f"{model.cls} ({name})" if name else model.cls


def _within(name: str) -> str:
    """A published name or a relative path as it is; only the last part of one that says where the machine has it."""
    path = name.replace("\\", "/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith(("/", "~")) or ":" in path or ".." in parts:
        parts = [part for part in parts if part != ".."][-1:]
    return "/".join(parts)


def _origin(source: Source) -> str:
    """What the module was made from: a file, a text that is none, or a dotted path."""
    made = f"by planlang {__version__}"
    if source.path is None and source.name.startswith("<"):
        return f"Made from {'standard input' if source.name == '<stdin>' else 'a text'} {made}."
    if source.path is not None and source.path.suffix == ".py":
        return f"Made from {source.name} {made}: change that, not this file."
    name = source.path.name if source.path else _within(source.name)
    return f"Made from {name} {made}: change that file, not this one."


def _option(value: bool | int | str | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(compiled: Compiled, imports: _Imports) -> Iterator[str]:
    for _, group in groupby(compiled.keys, key=lambda keyed: id(keyed.rule)):
        yield from _rule(list(group), imports)


def _rule(group: list[Keyed], imports: _Imports) -> Iterator[str]:
    rule = group[0].rule
    if isinstance(rule.style, Skip):
        return
    for comment in (*rule.above, *([rule.behind] if rule.behind else [])):
        yield f"        # {printable(comment)}".rstrip()
    for keyed in group:
        yield from lines(f"{quoted(keyed.key)}: ", _style(rule.style, imports), ",", 8)


class _Imports:
    """What the expressions of a module need imported: names by module, and modules as a whole."""

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.modules: set[str] = set()

    def name(self, module: str, name: str) -> str:
        self.names.setdefault(module, set()).add(name)
        return name

    def taken(self) -> set[str]:
        """The names that the module uses already."""
        tops = {module.partition(".")[0] for module in self.modules}
        return {name for names in self.names.values() for name in names} | tops | _TAKEN

    def lines(self) -> Iterator[str]:
        """The import lines as ruff and isort sort them: modules before names, numbers by their value."""
        for module in sorted(self.modules, key=_natural):
            yield f"import {module}"
        for module in sorted(self.names, key=_natural):
            names = sorted(self.names[module])
            line = f"from {module} import {', '.join(names)}"
            if len(line) <= WIDTH:
                yield line
            else:
                yield from (f"from {module} import (", *(f"    {name}," for name in names), ")")

    def layout(self, layout: Layout) -> str:
        match layout:
            case Replicate():
                return self.name(_PLACEMENTS, "Replicate") + "()"
            case Shard(dim=dim):
                return self.name(_PLACEMENTS, "Shard") + f"({dim})"
            case Partial(op=op):
                return self.name(_PLACEMENTS, "Partial") + ("()" if op == "sum" else f'("{op}")')
            case _:
                assert_never(layout)


def _style(style: Style, imports: _Imports) -> Expression:
    """A style as a Python expression; arguments that have torch's defaults are left out."""
    match style:
        case Colwise() | Rowwise() | Sequence() if style.invariant:
            name = f"Invariant{style.word.capitalize()}Parallel"
            return call(imports.name(_OWN, name), list(_invariant(style, imports)))
        case Colwise() | Rowwise():
            name = "ColwiseParallel" if isinstance(style, Colwise) else "RowwiseParallel"
            return call(imports.name(_STYLES, name), list(_projection(style, imports.layout)))
        case Sequence():
            arguments: list[tuple[str, Expression]] = [("sequence_dim", str(style.dim))] if style.dim != 1 else []
            if style.local:
                arguments.append(("use_local_output", "True"))
            return call(imports.name(_STYLES, "SequenceParallel"), arguments)
        case Prepare():
            sides = ("Input" if style.inputs or style.keywords else "") + ("Output" if style.outputs else "")
            return call(imports.name(_STYLES, f"PrepareModule{sides}"), list(_prepare(style, imports.layout)))
        case Replicated():
            grad: list[tuple[str, Expression]] = [("grad", '"none"')] if style.grad == "none" else []
            return call(imports.name(_OWN, "ReplicateParallel"), grad)
        case Attention():
            return call(imports.name(_OWN, "InvariantAttention"), [("blocks", str(style.invariant))])
        case Custom():
            module, _, cls = style.path.partition(":")
            imports.modules.add(module)
            return call(f"{module}.{cls}", _own_arguments(style, imports.layout))
        case Skip():
            raise ValueError("`skip` is no style of torch")
        case _:
            assert_never(style)


def _projection(style: Colwise | Rowwise, placed: Callable[[Layout], str]) -> Iterator[tuple[str, Expression]]:
    default = type(style)()
    if style.in_ != default.in_:
        yield "input_layouts", placed(style.in_)
    if style.out != default.out:
        yield "output_layouts", placed(style.out)
    if style.local != default.local:
        yield "use_local_output", str(style.local)


def _invariant(style: Colwise | Rowwise | Sequence, imports: _Imports) -> Iterator[tuple[str, Expression]]:
    yield "blocks", str(style.invariant)
    if isinstance(style, Sequence):
        yield from (("sequence_dim", str(style.dim)), ("use_local_output", str(style.local)))
    else:
        yield from _projection(style, imports.layout)
    if style.reduce.acc:
        imports.modules.add("torch")
        yield "accumulate", f"torch.{style.reduce.acc}"


def _natural(module: str) -> list[tuple[int, str]]:
    """A sort key that reads digits as numbers and no case."""
    pieces = re.split(r"(\d+)", module.lower())
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]


def _own_arguments(style: Custom, placed: Callable[[Layout], str]) -> list[tuple[str, Expression]]:
    """The arguments of a style of the user's own; names that Python cannot write as such go in as a mapping."""
    values = [(name, _free(value, placed)) for name, value in style.arguments]
    plain: list[tuple[str, Expression]] = [(name, value) for name, value in values if not keyword.iskeyword(name)]
    odd: list[tuple[str, Expression]] = [(name, value) for name, value in values if keyword.iskeyword(name)]
    return [*plain, ("**", mapping(odd))] if odd else plain


def _free(value: Scalar | Layout, placed: Callable[[Layout], str]) -> str:
    """An argument of a custom style; a text in double quotes, as formatters write it (it holds none itself)."""
    if isinstance(value, Replicate | Shard | Partial):
        return placed(value)
    return quoted(value) if isinstance(value, str) else repr(value)


def _prepare(style: Prepare, placed: Callable[[Layout], str]) -> Iterator[tuple[str, Expression]]:
    def side(conversions: tuple[Conversion | None, ...], which: str) -> Expression:
        items: list[Expression] = ["None" if c is None else placed(getattr(c, which)) for c in conversions]
        return items[0] if len(items) == 1 and conversions[0] else sequence(items)

    both = bool(style.inputs or style.keywords) and bool(style.outputs)
    if style.inputs:
        yield "input_layouts", side(style.inputs, "source")
        yield "desired_input_layouts", side(style.inputs, "target")
    if style.keywords:
        yield "input_kwarg_layouts", mapping([(name, placed(c.source)) for name, c in style.keywords])
        yield "desired_input_kwarg_layouts", mapping([(name, placed(c.target)) for name, c in style.keywords])
    if style.local_in:
        yield "use_local_input" if both else "use_local_output", "True"
    if style.outputs:
        yield "output_layouts", side(style.outputs, "source")
        yield "desired_output_layouts", side(style.outputs, "target")
        if not style.local_out:
            yield "use_local_output", "False"
