"""What a plan does to the parameters of a tree: the part that a rank holds, and what no rule reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planlang.analysis.assign import Assignment
from planlang.analysis.regions import Box
from planlang.layout import Layout, Replicate, Shard, local_shape
from planlang.model.tree import Kind, Node, Parameter, Tree
from planlang.plan.styles import (
    Attention,
    Colwise,
    Custom,
    Prepare,
    Replicated,
    Rowwise,
    Sequence,
    Skip,
    Style,
    axis_of,
)


def placement(style: Style, node: Node, parameter: Parameter) -> Layout | None:
    """How a style lays a parameter out, as torch's styles do; `None` where it leaves it alone or only it knows."""
    match style:
        case Colwise():
            return Shard(0) if node.kind is Kind.LINEAR else Shard(1)
        case Rowwise():
            if node.kind is not Kind.LINEAR:
                return Shard(0)
            return Shard(1) if parameter.name == "weight" else Replicate()
        case Sequence() | Replicated():
            return Replicate()
        case Prepare() | Attention() | Skip() | Custom():
            return None


def splits_plainly(style: Style, kind: Kind | None) -> bool:
    """Whether a style splits a computation so that its bits depend on the number of ranks.

    A lookup adds nothing up, so that of an Embedding does not.

    Args:
        style: the style.
        kind: what the module is to torch.
    """
    match style:
        case Colwise() | Rowwise():
            return not style.invariant and kind is not Kind.EMBEDDING
        case Sequence():
            return not style.invariant
        case Replicated():
            return style.grad == "sum"
        case Custom():
            return True
        case Prepare() | Attention() | Skip():
            return False


def drops(setting: str) -> bool:
    """Whether a setting of transformers is the share of numbers that are dropped at random, by its name."""
    return "dropout" in setting or "pdrop" in setting


def dropout(tree: Tree) -> tuple[str, float] | None:
    """The first setting by which a model drops numbers at random in training: its name and the share.

    What sits behind the layers, as a classifier's, is whole on every rank.
    """
    for key, value in tree.config.items():
        behind = key.startswith(("classifier", "summary"))
        if drops(key) and not behind and isinstance(value, float) and value > 0:
            return key, value
    return None


def local_shapes(style: Style, node: Node, sizes: Mapping[str, int]) -> list[tuple[Parameter, tuple[int, ...]]]:
    """The parameters of a module with the shape that rank 0, which holds the largest part, has of each."""
    size = sizes.get(axis_of(style) or "", 1)
    found = []
    for parameter in node.parameters:
        layout = placement(style, node, parameter)
        known = layout is not None and all(dim >= 0 for dim in parameter.shape) and _fits(layout, parameter)
        found.append((parameter, local_shape(parameter.shape, layout, size) if known and layout else parameter.shape))
    return found


def _fits(layout: Layout, parameter: Parameter) -> bool:
    return not isinstance(layout, Shard) or layout.dim < len(parameter.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """A parameter that no rule places.

    Attributes:
        name: its pattern, `model.layers.*.input_layernorm.weight`.
        shape: of one of them.
        count: how many there are.
        size: how many numbers they hold together.
        share: of all parameters of the model, from 0 to 1.
        skipped: whether a `skip` says that this is meant.
    """

    name: str
    shape: tuple[int, ...]
    count: int
    size: int
    share: float
    skipped: bool


def uncovered(assignment: Assignment) -> list[Uncovered]:
    """The parameters that stay whole plain tensors, largest first; empty where sizes are not known."""
    tree = assignment.sites.tree
    total = tree.size()
    if tree.is_class or not total:
        return []
    later = {name for group in tree.tied for name in group[1:]}
    found: dict[tuple[str, bool], Uncovered] = {}
    for site in assignment.sites.all:
        leaving = [(piece.box, True) for piece in assignment.rule_of(site) if isinstance(piece.rule.style, Skip)]
        leaving += [
            (piece.box, False)
            for piece in assignment.rule_of(site)
            if isinstance(piece.rule.style, Prepare | Attention)
        ]
        leaving += [(box, False) for box in assignment.unruled(site)]
        for parameter in site.node.parameters:
            name = f"{site.star}.{parameter.name}" if site.star else parameter.name
            if name in later:
                continue
            for box, skipped in leaving:
                count = _modules(box)
                before = found.get((name, skipped))
                count += before.count if before else 0
                size = count * parameter.size
                found[name, skipped] = Uncovered(
                    name=name, shape=parameter.shape, count=count, size=size, share=size / total, skipped=skipped
                )
    return sorted(found.values(), key=lambda each: (-each.size, each.name))


def _modules(box: Box) -> int:
    total = 1
    for numbers in box:
        total *= len(numbers)
    return total
