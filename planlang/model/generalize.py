"""From trees of models to the tree of their class: what holds for every model of the class, as far as is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planlang.indices import ALL, IndexSet
from planlang.model.intern import Interner
from planlang.model.tree import Child, Kind, Node, Parameter, Tree


def generalize(trees: Sequence[Tree]) -> Tree:
    """The tree of the class that `trees` are models of.

    Children of one name and class are merged. A list has any number of children, and every class seen in it may stand
    at any index. Sizes are unknown (-1), ranks are kept. A module that only some of the models have is there.

    Args:
        trees: at least one tree, all of one class.

    Raises:
        ValueError: there is no tree, or they are of several classes.
    """
    classes = sorted({tree.cls for tree in trees})
    if len(classes) != 1:
        raise ValueError(f"expected trees of one class, got {', '.join(classes) or 'none'}")
    groups = dict.fromkeys(group for tree in trees for group in (*tree.tied, *tree.may_tie))
    return Tree(
        name=classes[0],
        cls=classes[0],
        root=_Merger().merge([tree.root for tree in trees]),
        may_tie=tuple(groups),
        omitted=tuple(dict.fromkeys(path for tree in trees for path in tree.omitted)),
    )


class _Merger:
    """Merges nodes of one class; the same set of nodes is merged once, since models share most of their structure."""

    def __init__(self) -> None:
        self._interner = Interner()
        self._merged: dict[tuple[int, ...], Node] = {}

    def merge(self, nodes: Sequence[Node]) -> Node:
        distinct = {id(node): node for node in nodes}
        key = tuple(distinct)
        if key not in self._merged:
            self._merged[key] = self._merge(list(distinct.values()))
        return self._merged[key]

    def _merge(self, nodes: Sequence[Node]) -> Node:
        first = nodes[0]
        return self._interner.intern(
            replace(
                first,
                kind=first.kind if all(node.kind == first.kind for node in nodes) else Kind.OTHER,
                bases=tuple(base for base in first.bases if all(base in node.bases for node in nodes)),
                parameters=_parameters(nodes),
                children=self._children(nodes),
                call=first.call if all(node.call == first.call for node in nodes) else None,
                length=None,
            )
        )

    def _children(self, nodes: Sequence[Node]) -> tuple[Child, ...]:
        groups: dict[tuple[str | IndexSet, str], list[Node]] = {}
        for node in nodes:
            for child in node.children:
                name = ALL if isinstance(child.name, IndexSet) else child.name
                groups.setdefault((name, child.node.cls), []).append(child.node)
        order = _in_order([[_key(child) for child in node.children] for node in nodes])
        return tuple(Child(key[0], self.merge(groups[key])) for key in order)


def _key(child: Child) -> tuple[str | IndexSet, str]:
    return (ALL if isinstance(child.name, IndexSet) else child.name, child.node.cls)


def _in_order(
    sequences: Iterable[Sequence[tuple[str | IndexSet, str]]],
) -> list[tuple[str | IndexSet, str]]:
    """All keys, each new one after the key that it follows where it was seen, so that a class reads like its models."""
    order: list[tuple[str | IndexSet, str]] = []
    for sequence in sequences:
        at = 0
        for key in sequence:
            if key in order:
                at = order.index(key) + 1
            else:
                while at < len(order) and order[at][0] == key[0]:  # one name with several classes
                    at += 1
                order.insert(at, key)
                at += 1
    return order


def _parameters(nodes: Sequence[Node]) -> tuple[Parameter, ...]:
    """The parameters of all `nodes` without their sizes; one whose rank differs between models is left out."""
    ranks: dict[str, set[int]] = {}
    for node in nodes:
        for parameter in node.parameters:
            ranks.setdefault(parameter.name, set()).add(len(parameter.shape))
    return tuple(Parameter(name, (-1,) * rank.pop()) for name, rank in ranks.items() if len(rank) == 1)
