"""Sizes that the ranks must divide, because code that knows nothing of the split computes on one rank's part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planlang.analysis.checks.case import Case, Use
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.layout import Shard, shard_size
from planlang.model.tree import Kind
from planlang.plan.styles import Colwise, axis_of

# Projections by the heads they make, in attention modules (the names that transformers uses throughout).
HEADS = ("num_attention_heads", "attention heads")
KV_HEADS = ("num_key_value_heads", "key and value heads")
_PROJECTIONS = {"q_proj": HEADS, "k_proj": KV_HEADS, "v_proj": KV_HEADS}


def check_sizes(case: Case) -> Iterator[Finding]:
    """A `colwise` module whose part stays local: whole heads in attention, equal widths elsewhere."""
    seen: set[int] = set()
    for use in case.uses():
        size = case.sizes.get(axis_of(use.rule.style) or "", 1)
        width = _local_width(use)
        if size == 1 or width is None:
            continue
        found = heads(case, use, _PROJECTIONS)
        count = found[0] if found else width
        if count % size == 0 or id(use.rule) in seen:
            continue
        seen.add(id(use.rule))
        yield _heads_finding(case, use, *found, size) if found else _width_finding(use, width, size)


def _local_width(use: Use) -> int | None:
    """How wide the output is of which a rank uses its part as a whole; `None` where it does not, or nobody knows."""
    style, node = use.rule.style, use.site.node
    if not isinstance(style, Colwise) or style.invariant or not style.local or not isinstance(style.out, Shard):
        return None
    rank = node.call.outputs[0] if node.call and node.call.outputs else None
    if style.out.dim != -1 and style.out.dim + 1 != rank:
        return None
    weight = next((parameter.shape for parameter in node.parameters if parameter.name == "weight"), ())
    if len(weight) != 2:
        return None
    width = weight[0] if node.kind is Kind.LINEAR else weight[1]
    return width if width > 0 else None


def heads(case: Case, use: Use, settings: Mapping[str, tuple[str, str]]) -> tuple[int, str] | None:
    """How many heads a module of an attention is for, and what they are called.

    Args:
        case: the plan on a tree.
        use: the module.
        settings: by the module's own name, the setting that says how many, and the word for them.
    """
    *above, name = use.site.path
    setting = settings.get(name) if isinstance(name, str) else None
    if setting is None or not above:
        return None
    parent = next((site for site in case.assignment.sites.all if site.path == tuple(above)), None)
    count = case.tree.config.get(setting[0])
    if parent is None or "Attention" not in parent.node.cls or not isinstance(count, int):
        return None
    return count, setting[1]


def _heads_finding(case: Case, use: Use, count: int, what: str, size: int) -> Finding:
    axis = axis_of(use.rule.style)
    both = [case.tree.config.get(key) for key in ("num_attention_heads", "num_key_value_heads")]
    fitting = [n for n in range(2, count + 1) if all(isinstance(heads, int) and heads % n == 0 for heads in both)]
    sizes = [f"`{axis}={n}`" for n in fitting[:4]]
    listed = " or ".join(filter(None, [", ".join(sizes[:-1]), sizes[-1]])) if sizes else ""
    heads_text = f"{count} {what}" if count > 1 else f"one {what.removesuffix('s')}"
    help_ = f"use {listed}" if listed else "leave the attention of this model without rules"
    return Finding(
        code=codes.HEADS_NOT_DIVISIBLE,
        message=f"{axis}={size} does not divide the {heads_text} of {use.name}",
        place=use.place,
        notes=(
            f"{count} / {size} = {count / size:g}: a rank would hold part of a head, and the model's reshape fails",
        ),
        help=help_,
    )


def _width_finding(use: Use, width: int, size: int) -> Finding:
    axis = axis_of(use.rule.style)
    first, last = shard_size(width, size), shard_size(width, size, size - 1)
    return Finding(
        code=codes.WIDTH_NOT_DIVISIBLE,
        message=f"{axis}={size} does not divide the width {width} of {use.name}, whose output stays local",
        place=use.place,
        notes=(
            f"rank 0 would hold {first} and rank {size - 1} {last}: what is sharded again, or gathered, no longer fits",
        ),
        help="keep the output a DTensor with `local=false`, "
        + (f"or use a size that divides {width}" if width > size else "or leave the module whole with `skip`"),
    )
