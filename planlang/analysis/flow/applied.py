"""From a matched plan to what a walk needs: the style of every module that a rule reaches, and what the module is."""

from __future__ import annotations

from planlang.analysis.assign import Assignment
from planlang.analysis.coverage import dropout
from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.setup import Setup
from planlang.analysis.regions import concrete
from planlang.model.graph import Graph
from planlang.plan.styles import Skip, axis_of


def applied_styles(assignment: Assignment, axis: str) -> dict[str, Applied]:
    """The style of every module that a rule of an axis reaches, by its full name."""
    found: dict[str, Applied] = {}
    shared: dict[int, Applied] = {}
    for site in assignment.sites.all:
        for piece in assignment.rule_of(site):
            if isinstance(piece.rule.style, Skip) or axis_of(piece.rule.style) != axis:
                continue
            applied = shared.setdefault(id(piece.rule), Applied(piece.rule.style, piece.rule))
            found |= dict.fromkeys(concrete(site, piece.box), applied)
    return found


def setup(assignment: Assignment, graph: Graph, axis: str, ranks: int) -> Setup:
    """What a walk is about.

    Args:
        assignment: the rules of a model's modules.
        graph: a pass of that model.
        axis: the mesh axis; rules of others are left out.
        ranks: its size.
    """
    applied = applied_styles(assignment, axis)
    tree = assignment.sites.tree
    kinds = {name: node.kind for name in applied if (node := tree.find(name)) is not None}
    return Setup(graph, applied, ranks, kinds, dropout(tree) is not None)
