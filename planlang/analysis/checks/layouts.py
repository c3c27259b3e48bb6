"""Layouts against the tensors that a module takes and returns in the model's own forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from planlang.analysis.checks.case import Case, Use
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, did_you_mean
from planlang.layout import Conversion, Layout, Shard
from planlang.model.tree import Call
from planlang.plan import ir
from planlang.plan.styles import Colwise, Prepare, Rowwise, Sequence
from planlang.source import Place

Key = TypeVar("Key", int, str)

# No tensor of a language model has more; this holds where a module's inputs are not known.
MOST_DIMS = 8


def check_ranks(case: Case) -> Iterator[Finding]:
    """A sharded dim must be one that the tensor has."""
    seen: set[tuple[int, str, int]] = set()
    for entry, name, sides in _sides(case):
        for side, layout, rank in sides:
            if not isinstance(layout, Shard) or -rank <= layout.dim < rank or (id(entry), side, layout.dim) in seen:
                continue
            seen.add((id(entry), side, layout.dim))
            have = f"has {rank} dims" if rank != MOST_DIMS else f"has fewer than {MOST_DIMS} dims"
            yield Finding(
                code=codes.SHARD_OUT_OF_RANK,
                message=f"`{layout}` shards a dim that the {side} of {name} does not have: it {have}",
                place=_place(entry, side),
                help=f"its dims are 0 to {rank - 1}, or -1 to -{rank} from the last",
            )


def _place(entry: ir.Entry, side: str) -> Place | None:
    """The argument that shards a side, as far as it is written in the rule."""
    if not isinstance(entry, ir.Rule):
        return entry.place
    if isinstance(entry.style, Sequence):
        return entry.place_of("dim")
    return entry.place_of("out" if side.startswith("output") else "in")


def _sides(case: Case) -> Iterator[tuple[ir.Entry, str, Iterator[tuple[str, Layout, int]]]]:
    """Every rule at every site, and every expectation at the first that it is about."""
    for use in case.uses():
        yield use.rule, use.name, _layouts(use)
    for entry, region in case.assignment.reached:
        if isinstance(entry, ir.Expect) and region:
            site = case.assignment.sites.all[min(region)]
            yield entry, f"`{site.shown}`", _claims(entry, site.node.call or Call())


def _claims(expect: ir.Expect, call: Call) -> Iterator[tuple[str, Layout, int]]:
    ranks = dict(call.keywords)
    for i, layout in enumerate(expect.in_):
        if layout:
            yield "input", layout, _rank(call.inputs, i)
    for name, layout in expect.keywords:
        yield f"input `{name}`", layout, ranks.get(name) or MOST_DIMS
    for i, layout in enumerate(expect.out):
        if layout:
            yield "output", layout, _rank(call.outputs, i)


def _layouts(use: Use) -> Iterator[tuple[str, Layout, int]]:
    """What a rule says of the module's tensors: which, the layout, and how many dims the tensor has."""
    call = use.site.node.call or Call()
    match use.rule.style:
        case Colwise() | Rowwise() as style:
            yield "input", style.in_, _rank(call.inputs, 0)
            yield "output", style.out, _rank(call.outputs, 0)
        case Sequence() as style:
            yield "input", Shard(style.dim), _rank(call.inputs, 0)
        case Prepare() as style:
            keywords = dict(call.keywords)
            yield from _converted("input", enumerate(style.inputs), dict(enumerate(call.inputs)))
            yield from _converted("input", style.keywords, keywords)
            yield from _converted("output", enumerate(style.outputs), dict(enumerate(call.outputs)))
        case _:
            return


def _converted(
    side: str,
    conversions: Iterable[tuple[Key, Conversion | None]],
    ranks: Mapping[Key, int | None],
) -> Iterator[tuple[str, Layout, int]]:
    for key, conversion in conversions:
        if conversion is None:
            continue
        rank = ranks.get(key) or MOST_DIMS
        shown = f"{side} `{key}`" if isinstance(key, str) else side
        yield shown, conversion.source, rank
        yield shown, conversion.target, rank


def _rank(ranks: tuple[int | None, ...], number: int) -> int:
    return (ranks[number] if number < len(ranks) else None) or MOST_DIMS


def check_calls(case: Case) -> Iterator[Finding]:
    """`prepare` must name the inputs and outputs that the module's call has: torch counts the positional ones."""
    seen: set[int] = set()
    for use in case.uses():
        call = use.site.node.call
        if isinstance(use.rule.style, Prepare) and call is not None and id(use.rule) not in seen:
            for message, help_ in _mismatches(use, use.rule.style, call):
                seen.add(id(use.rule))
                yield Finding(code=codes.CALL_MISMATCH, message=message, place=use.place, help=help_)


def _mismatches(use: Use, style: Prepare, call: Call) -> Iterator[tuple[str, str]]:
    names = [name for name, _ in call.keywords]
    each = "write one entry for each, `none` for one that is left alone"
    if style.inputs and len(style.inputs) != len(call.inputs):
        entries, there = _count(len(style.inputs), "entry", "entries"), _count(len(call.inputs), "positional input")
        by_name = next((name for name, rank in call.keywords if rank is not None), None)
        by_keyword = f"it is called by keyword: write `in={{{by_name}: … -> …}}`"
        help_ = by_keyword if by_name and not call.inputs else each
        yield f"`in` has {entries}, and {use.name} is called with {there}", help_
    for name, _ in style.keywords:
        if name not in names:
            known = ", ".join(f"`{n}`" for n in names)
            otherwise = f"its inputs by name are {known}" if names else "all its inputs are positional: write a tuple"
            yield f"{use.name} is not called with an input `{name}`", did_you_mean(name, names, otherwise)
    if style.outputs and len(style.outputs) != len(call.outputs):
        entries, there = _count(len(style.outputs), "entry", "entries"), _count(len(call.outputs), "output")
        yield f"`out` has {entries}, and {use.name} returns {there}", each


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
