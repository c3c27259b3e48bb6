"""Styles on modules that torch cannot apply them to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planlang.analysis.checks.case import Case, Use
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, or_list
from planlang.layout import Replicate
from planlang.model.tree import Kind, Node
from planlang.plan.spell import style_text
from planlang.plan.styles import Colwise, Rowwise, Sequence


def check_styles(case: Case) -> Iterator[Finding]:
    """`colwise` and `rowwise` shard a Linear or an Embedding; they and `sequence` read the first positional input.

    An Embedding takes whole ids, which the default of `rowwise` denies.
    """
    seen: set[tuple[int, str]] = set()
    for use in case.uses():
        style, node = use.rule.style, use.site.node
        if not isinstance(style, Colwise | Rowwise | Sequence):
            continue
        finding = None
        if not isinstance(style, Sequence) and node.kind not in (Kind.LINEAR, Kind.EMBEDDING):
            finding = _wrong_kind(use, style.word)
        elif node.call is not None and not node.call.inputs and node.call.keywords:
            finding = _by_keyword(use, style.word)
        elif isinstance(style, Rowwise) and node.kind is Kind.EMBEDDING and style.in_ == Rowwise().in_:
            finding = _sharded_ids(use, style)
        if finding and (id(use.rule), node.cls) not in seen:
            seen.add((id(use.rule), node.cls))
            yield finding


def _wrong_kind(use: Use, word: str) -> Finding:
    node = use.site.node
    what = "a list of modules" if node.kind is Kind.CONTAINER else f"a `{node.cls}`"
    return Finding(
        code=codes.STYLE_NOT_FOR_MODULE,
        message=f"{use.name} is {what}, and `{word}` is only for Linear and Embedding modules",
        place=use.place,
        help=_instead(node, use.site.star),
    )


def _instead(node: Node, star: str) -> str:
    if node.kind is Kind.NORM:
        return "write `sequence(dim=…)` if its input is sharded, `replicate` if it is not, or leave it without a rule"
    inside = [child.name for child in node.children if isinstance(child.name, str) and child.node.kind is Kind.LINEAR]
    if inside:
        names = or_list(f"{star}.{name}" for name in inside).replace(" or ", " and ")
        return f"it is the Linear modules inside that can be sharded: {names}"
    if not node.parameters and not node.children:
        return "it has no parameters: leave it without a rule"
    if node.parameters:
        return "torch has no style that shards parameters of its own: leave it whole, or name a `custom` style"
    return "write rules for the Linear modules inside it, or `prepare` for the layouts at its boundary"


def _sharded_ids(use: Use, style: Rowwise) -> Finding:
    """`shard(-1)`, the default of `in`, is right for a Linear; ids that really come in parts are `shard(1)`."""
    return Finding(
        code=codes.SHARDED_TOKEN_IDS,
        message=f"`in={style.in_}`, the default of `{style.word}`, says that each rank gets a part of the ids "
        f"that {use.name} looks up",
        place=use.place,
        notes=("torch would join the ranks' ids along the sequence: with whole ids it gets as many times too long",),
        help=f"write `{style_text(replace(style, in_=Replicate()))}`",
    )


def _by_keyword(use: Use, word: str) -> Finding:
    assert use.site.node.call is not None
    names = [name for name, rank in use.site.node.call.keywords if rank is not None]
    name = names[0] if names else "hidden_states"
    return Finding(
        code=codes.STYLE_NOT_FOR_MODULE,
        message=f"`{word}` reads the first positional input, and the model calls {use.name} by keyword",
        place=use.place,
        help=f"convert what it is given by name: `prepare(in={{{name}: … -> …}})`",
    )
