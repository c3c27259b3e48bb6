"""One object for equal subtrees: what keeps the tree of a 94-layer model small."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from planlang.indices import IndexSet
from planlang.model.tree import Child, Node, Tree


class Interner:
    """Remembers nodes by what they hold; the nodes it returns are equal exactly where they are one object."""

    def __init__(self) -> None:
        self._nodes: dict[Hashable, Node] = {}
        # By id; the node is kept beside its twin so that no other object takes its id.
        self._adopted: dict[int, tuple[Node, Node]] = {}

    def intern(self, node: Node) -> Node:
        """The first node seen that equals `node`, whose children must come from this interner."""
        children = tuple((child.name, id(child.node)) for child in node.children)
        key = (node.cls, node.kind, node.bases, node.parameters, children, node.call, node.length)
        return self._nodes.setdefault(key, node)

    def adopt(self, node: Node) -> Node:
        """The node of this interner that equals `node`, whatever its children come from."""
        known = self._adopted.get(id(node))
        if known is None:
            children = tuple(Child(child.name, self.adopt(child.node)) for child in node.children)
            known = (node, self.intern(replace(node, children=children)))
            self._adopted[id(node)] = known
        return known[1]


def equal(left: Tree, right: Tree) -> bool:
    """Whether two trees say the same of two models; their names are left out, as one model has several."""
    interner = Interner()
    return interner.adopt(left.root) is interner.adopt(right.root) and all(
        getattr(left, field) == getattr(right, field) for field in ("cls", "config", "tied", "may_tie", "omitted")
    )


def group_children(pairs: Iterable[tuple[str, Node]]) -> tuple[Child, ...]:
    """Children of a list: those named by a number that share a node become one, where the first of them stood."""
    numbers: dict[int, list[int]] = {}
    order: list[tuple[str | None, Node]] = []
    for name, node in pairs:
        # `isdecimal` also takes "007" and digits of other scripts, which `ModuleList` does not make.
        if not (name.isdecimal() and str(int(name)) == name):
            order.append((name, node))
        elif id(node) in numbers:
            numbers[id(node)].append(int(name))
        else:
            numbers[id(node)] = [int(name)]
            order.append((None, node))
    return tuple(Child(IndexSet.of(numbers[id(node)]) if name is None else name, node) for name, node in order)
