"""Plans that somebody wrote in Python: a dotted path to a dict of torch's styles, read into the language's own form."""

from __future__ import annotations

import contextlib
import importlib
import pathlib
import re
import sys
import types
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

from planlang import layout as layouts
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError
from planlang.plan import ir
from planlang.plan.documents import short
from planlang.plan.styles import ACCUMULATORS, Attention, Colwise, Prepare, Replicated, Rowwise, Sequence, Style, Tree
from planlang.runtime.invariant import (
    InvariantAttention,
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
)
from planlang.runtime.replicate import ReplicateParallel
from planlang.source import Source
from planlang.syntax.nodes import Choice, Literal, Part, Path, Segment, Star, Target

_STARS = re.compile(r"\*+")  # one star is as good as several
_MOST_CHARACTERS = 256
_GLOB = re.compile(r"\*|\[([^\]!][^\]]*)\]|[^*\[?]+")


def imported_plan(path: str) -> tuple[Source, ir.Plan]:
    """The plan behind a dotted path, found as NeMo-RL and Automodel find it: import, `getattr`, call a function.

    Raises:
        PlanError: it cannot be imported, or is not a dict of torch's styles.
    """
    module, _, attribute = path.rpartition(".")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for what is made of the plan
            value = getattr(importlib.import_module(module), attribute)
            if isinstance(value, types.FunctionType):
                value = value()
            value = dict(value.items()) if isinstance(value, Mapping) else value
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing runs the user's code, which may raise anything, and may exit
        message = f"`{path}` cannot be imported: {type(error).__name__}: {error}"
        help_ = "name a dict, or a function without parameters, as `package.module.attribute`"
        raise PlanError([Finding(code=codes.UNRESOLVED_PATH, message=message, help=help_)]) from error
    if not isinstance(value, Mapping):
        message = f"`{path}` is a `{type(value).__name__}`, not a dict of parallel styles"
        raise PlanError([Finding(code=codes.UNRESOLVED_PATH, message=message)])
    findings: list[Finding] = []
    entries = tuple(_rules(value, path, findings))
    if findings:
        raise PlanError(findings)
    name = attribute if attribute.isidentifier() else "plan"
    file = getattr(sys.modules.get(module), "__file__", None)
    return Source(path, "", pathlib.Path(file) if file else None), ir.Plan(name=name, classes=(), entries=entries)


def _rules(plan: Mapping[Any, Any], path: str, findings: list[Finding]) -> Iterator[ir.Rule]:
    for key, value in plan.items():
        try:
            yield ir.Rule(target=Target(pattern=_path(key)), style=_style(value))
        except Exception as error:  # what a style holds may be anything, too
            why = str(error) if isinstance(error, _Unreadable) else f"which cannot be read: {error!r}"
            message = f"`{path}` holds {short(key)}, {why}"
            findings.append(
                Finding(code=codes.UNRESOLVED_PATH, message=message, help="write this entry in a `.plan` file")
            )


class _Unreadable(Exception):
    """An entry that the language has no word for."""


def _path(key: Any) -> Path:
    """A key of torch's: one `fnmatch` pattern a segment."""
    if not isinstance(key, str):
        raise _Unreadable("which is no module name")
    if not all(key.split(".")):
        raise _Unreadable(
            "and the language has no pattern for the model itself" if not key else "with an empty segment"
        )
    if '"' in key or "\n" in key:
        raise _Unreadable("and no pattern of the language holds a quote or a line end")
    key = _STARS.sub("*", key)
    return Path(segments=tuple(Segment(parts=tuple(_parts(segment))) for segment in key.split(".")))


def _parts(segment: str) -> Iterator[Part]:
    at = 0
    while at < len(segment):
        found = _GLOB.match(segment, at)
        if found is None:
            raise _Unreadable(f"and the language has no `{segment[at]}` for one character")
        if found[0] == "*":
            yield Star() if len(segment) > 1 else Choice(options=((Star(),),))
        elif found[1] is not None:
            characters = tuple(islice(_characters(found[1]), _MOST_CHARACTERS + 1))
            if not 0 < len(characters) <= _MOST_CHARACTERS or "." in characters:
                raise _Unreadable(f"and `{found[0]}` stands for no name, or for too many")
            yield Choice(options=tuple((Literal(text=char),) for char in characters))
        else:
            yield Literal(text=found[0])
        at = found.end()


def _characters(text: str) -> Iterator[str]:
    """What a character class holds: `0-3` and single characters."""
    for run in re.finditer(r"(.)-(.)|(.)", text):
        if run[3]:
            yield run[3]
        else:
            yield from map(chr, range(ord(run[1]), ord(run[2]) + 1))


def _style(style: Any) -> Style:
    """A style of exactly one of torch's classes; a subclass may do anything."""
    cls = type(style)
    if cls is ColwiseParallel or cls is RowwiseParallel:
        (in_,), (out,) = style.input_layouts, style.output_layouts
        made = Colwise if cls is ColwiseParallel else Rowwise
        return made(in_=_layout(in_), out=_layout(out), local=_flag(style.use_local_output))
    if cls is SequenceParallel:
        (placement,) = style.sequence_sharding
        return Sequence(dim=_dim(placement.dim), local=_flag(style.use_local_output))
    if cls is PrepareModuleInput:
        return Prepare(**_inputs(style), local_in=_flag(style.use_local_output))
    if cls is PrepareModuleOutput:
        return Prepare(**_outputs(style), local_out=_flag(style.use_local_output))
    if cls is PrepareModuleInputOutput:
        inner, outer = style.prepare_module_input, style.prepare_module_output
        return Prepare(
            **_inputs(inner),
            **_outputs(outer),
            local_in=_flag(inner.use_local_output),
            local_out=_flag(outer.use_local_output),
        )
    if cls is InvariantColwiseParallel or cls is InvariantRowwiseParallel:
        made = Colwise if cls is InvariantColwiseParallel else Rowwise
        return made(
            in_=_layout(style.input_layouts),
            out=_layout(style.output_layouts),
            local=_flag(style.use_local_output),
            **_blocks(style),
        )
    if cls is InvariantSequenceParallel:
        return Sequence(dim=_dim(style.sequence_dim), local=_flag(style.use_local_output), **_blocks(style))
    if cls is InvariantAttention:
        return Attention(invariant=_dim(style.blocks))
    if cls is ReplicateParallel:
        return Replicated(grad=style.grad)
    raise _Unreadable(f"a `{cls.__name__}`, which is no style of torch's own classes")


def _blocks(style: Any) -> dict[str, Any]:
    """What an invariant style has and the plain one lacks."""
    acc = None if style.accumulate is None else str(style.accumulate).removeprefix("torch.")
    for known in (None, *ACCUMULATORS):
        if acc == known:
            return {"invariant": _dim(style.blocks), "reduce": Tree(known)}
    raise _Unreadable(f"which adds in `{acc}`")


def _inputs(style: PrepareModuleInput) -> dict[str, Any]:
    keywords = style.input_kwarg_layouts or {}
    wanted = style.desired_input_kwarg_layouts or {}
    named = tuple((name, _conversion(keywords[name], wanted[name])) for name in keywords)
    if style.input_layouts and any(named):
        raise _Unreadable("which converts positional inputs and inputs by name at once")
    pairs = zip(style.input_layouts or (), style.desired_input_layouts or (), strict=True)
    return {"inputs": tuple(_conversion(*pair) for pair in pairs), "keywords": named}


def _outputs(style: PrepareModuleOutput) -> dict[str, Any]:
    pairs = zip(style.output_layouts, style.desired_output_layouts, strict=True)
    return {"outputs": tuple(_conversion(*pair) for pair in pairs)}


def _conversion(source: Placement | None, target: Placement | None) -> Any:
    return None if source is None or target is None else layouts.Conversion(_layout(source), _layout(target))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Unreadable(f"with {short(value)} where `True` or `False` should be")
    return value


def _dim(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Unreadable(f"with {short(value)} where a dimension should be")
    return value


def _layout(placement: Placement) -> layouts.Layout:
    kind = type(placement)  # a subclass may mean anything
    match placement:
        case Replicate() if kind is Replicate:
            return layouts.Replicate()
        case Shard() if kind is Shard:
            return layouts.Shard(_dim(placement.dim))
        case Partial(reduce_op=op) if kind is Partial and op in layouts.REDUCE_OPS:
            return layouts.Partial(op)
        case _:
            raise _Unreadable(f"which uses the placement `{placement}`")
