"""Blocks of invariant styles: the ranks share them, and they cut neither heads nor widths unevenly, nor too narrow."""

from __future__ import annotations

from collections.abc import Iterator

from planlang.analysis.checks.case import Case, Use
from planlang.analysis.checks.sizes import HEADS, KV_HEADS, heads
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.model.tree import Kind, Node
from planlang.plan.styles import Attention, Colwise, Rowwise, Sequence, axis_of, blocks_of

# What each module of an attention has one of for each head.
_BY_HEAD = {
    "q_proj": HEADS,
    "k_proj": KV_HEADS,
    "v_proj": KV_HEADS,
    "q_norm": HEADS,
    "k_norm": KV_HEADS,
    "o_proj": HEADS,
}


def check_blocks(case: Case) -> Iterator[Finding]:
    """The first module of each rule whose blocks do not come out even, and modules that cannot be cut into any."""
    seen: set[int] = set()
    for use in case.uses():
        blocks = blocks_of(use.rule.style)
        if not blocks or id(use.rule) in seen:
            continue
        finding = _shared(case, use, blocks) or _whole(case, use, blocks) or _wide(use, blocks)
        finding = finding or _without_parts(use) or _alone(use, blocks)
        if finding:
            seen.add(id(use.rule))
            yield finding


def _shared(case: Case, use: Use, blocks: int) -> Finding | None:
    """Whether the ranks can share the blocks."""
    axis = axis_of(use.rule.style) or ""
    ranks = case.sizes.get(axis, 1)
    if blocks % ranks == 0:
        return None
    more = f"use a size that divides {blocks}"
    if ranks & (ranks - 1) == 0 and ranks > blocks:
        more = f"{_set(use, ranks)}, which then has to divide heads and widths, or {more}"
    return Finding(
        code=codes.BLOCKS_NOT_DIVISIBLE,
        message=f"{axis}={ranks} does not divide the {blocks} blocks of {use.name}",
        place=use.rule.place_of("invariant"),
        notes=(f"{blocks} / {ranks} = {blocks / ranks:g}: each rank computes whole blocks, and as many as the others",),
        help=more,
    )


def _whole(case: Case, use: Use, blocks: int) -> Finding | None:
    """Whether the blocks divide the heads, or the width, that they cut."""
    found = _fewest_heads(case, use) or heads(case, use, _BY_HEAD) or _width(use)
    if found is None or found[0] % blocks == 0:
        return None
    count, what = found
    fitting = count & -count
    return Finding(
        code=codes.BLOCKS_NOT_DIVISIBLE,
        message=f"{blocks} blocks do not divide the {count} {what} of {use.name}",
        place=use.rule.place_of("invariant"),
        notes=(f"{count} / {blocks} = {count / blocks:g}: a block holds whole {what}, as many as the others",),
        help=f"{_set(use, fitting)}, the largest power of two that divides {count}"
        if fitting > 1
        else f"no power of two divides {count}: leave it without a rule",
    )


def _set(use: Use, blocks: int) -> str:
    """Where to write another number of blocks: at the rule, or as the option that the rule names."""
    place = use.rule.arguments.get("invariant")
    value = place.text.partition("=")[2].strip() if place else ""
    if value.isidentifier():
        return f"set the option `{value}={blocks}` (`-D {value}={blocks}`)"
    return f"write `invariant={blocks}`"


def _fewest_heads(case: Case, use: Use) -> tuple[int, str] | None:
    """The key and value heads of a whole attention, of which there are the fewest; else its heads."""
    if isinstance(use.rule.style, Attention):
        for key, what in (KV_HEADS, HEADS):
            count = case.tree.config.get(key)
            if isinstance(count, int):
                return count, what
    return None


def _wide(use: Use, blocks: int) -> Finding | None:
    """Whether the blocks of a product are two wide or more; those of a lookup may be one wide."""
    found = _width(use)
    if use.site.node.kind is not Kind.LINEAR or found is None or blocks == 1 or found[0] != blocks:
        return None
    return Finding(
        code=codes.BLOCKS_NOT_DIVISIBLE,
        message=f"{blocks} blocks of the {blocks} {found[1]} of {use.name} are one wide each",
        place=use.rule.place_of("invariant"),
        notes=("a product with one row or column runs in another kernel, which adds in an order of its own",),
        help=_set(use, blocks // 2) if blocks > 2 else "leave it without a rule: it is small",
    )


def _width(use: Use) -> tuple[int, str] | None:
    """What a projection or an embedding cuts; `None` where that is not known."""
    style, node = use.rule.style, use.site.node
    weight = next((parameter.shape for parameter in node.parameters if parameter.name == "weight"), ())
    if len(weight) != 2 or min(weight) < 1 or not isinstance(style, Colwise | Rowwise):
        return None
    linear = node.kind is Kind.LINEAR
    if isinstance(style, Colwise):
        return (weight[0], "output features") if linear else (weight[1], "features")
    return (weight[1], "input features") if linear else (weight[0], "rows")


def _without_parts(use: Use) -> Finding | None:
    """A `sequence` with blocks runs the module's own code on each, with the module's own parameters."""
    style, node = use.rule.style, use.site.node
    if not isinstance(style, Sequence) or not any(_has_parameters(child.node) for child in node.children):
        return None
    return Finding(
        code=codes.STYLE_NOT_FOR_MODULE,
        message=f"{use.name} has parameters below its own, and `sequence` with `invariant` is for a single module",
        place=use.place,
        help="write rules for the modules inside it",
    )


def _alone(use: Use, blocks: int) -> Finding | None:
    """`attention` is for the module whose code computes it, which has its projections inside."""
    node = use.site.node
    if not isinstance(use.rule.style, Attention) or node.children:
        return None
    return Finding(
        code=codes.STYLE_NOT_FOR_MODULE,
        message=f"{use.name} is a `{node.cls}`, and `attention` is for a module that computes attention",
        place=use.place,
        help=f"write it for the module around the projections, `*.self_attn: attention(invariant={blocks})`",
    )


def _has_parameters(node: Node) -> bool:
    return bool(node.parameters) or any(_has_parameters(child.node) for child in node.children)
