"""Trees as JSON text: the form in which the catalog holds them.

A document holds several trees, one for each class of a checkpoint, over one table of nodes. A node stands on one line,
after its children, and names them by their place in the table. Index sets are written as in the language: `{0..35}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planlang.indices import IndexSet
from planlang.model.intern import Interner
from planlang.model.tree import Call, Child, Kind, Node, Parameter, Tree

SCHEMA = 1


def dump(trees: Mapping[str, Tree]) -> str:
    """`trees` as text; the same trees give the same text.

    Args:
        trees: the trees by the names under which `load` returns them, usually their classes.
    """
    interner = Interner()
    table: dict[int, int] = {}
    lines: list[str] = []

    def place(node: Node) -> int:
        if id(node) not in table:
            text = _line(_node_record(node, [place(child.node) for child in node.children]))
            table[id(node)] = len(lines)
            lines.append(text)
        return table[id(node)]

    heads = ",\n".join(
        f"  {_line(key)}: {_line(_tree_record(tree, place(interner.adopt(tree.root))))}" for key, tree in trees.items()
    )
    body = ",\n".join(f"  {line}" for line in lines)
    return f'{{\n "schema": {SCHEMA},\n "trees": {{\n{heads}\n }},\n "nodes": [\n{body}\n ]\n}}\n'


def load(text: str) -> dict[str, Tree]:
    """The trees of a text that `dump` wrote.

    Raises:
        ValueError: the text is no JSON or of another schema.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"not a document of model trees, schema {SCHEMA}")
    nodes: list[Node] = []
    for record in document["nodes"]:
        nodes.append(_node(record, nodes))
    return {key: _tree(record, nodes) for key, record in document["trees"].items()}


def parse_indices(text: str) -> IndexSet:
    """The index set that `str` writes as `text`: `{0..27}`, `{0,2}`, `*`, `* except {0..3}`.

    Raises:
        ValueError: `text` is none of these.
    """
    if text == "*":
        return ~IndexSet.of(())
    if text.startswith("* except "):
        return ~parse_indices(text.removeprefix("* except "))
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"`{text}` is no set of indices")
    numbers: list[int] = []
    for run in text[1:-1].split(",") if text != "{}" else ():
        first, _, last = run.partition("..")
        numbers.extend(range(int(first), int(last or first) + 1))
    return IndexSet.of(numbers)


def _line(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(", ", ": "))


def _node_record(node: Node, places: list[int]) -> dict[str, Any]:
    """A node without what is empty: most nodes are leaves with one parameter."""
    record: dict[str, Any] = {"cls": node.cls, "kind": node.kind.value}
    if node.bases:
        record["bases"] = node.bases
    if node.parameters:
        record["parameters"] = {parameter.name: parameter.shape for parameter in node.parameters}
    if node.children:
        record["children"] = [
            {"indices" if isinstance(child.name, IndexSet) else "name": str(child.name), "node": place}
            for child, place in zip(node.children, places, strict=True)
        ]
    if node.call is not None:
        call = node.call
        record["call"] = {"inputs": call.inputs, "keywords": call.keywords, "outputs": call.outputs}
    if node.length is not None:
        record["length"] = node.length
    return record


def _tree_record(tree: Tree, root: int) -> dict[str, Any]:
    record: dict[str, Any] = {"name": tree.name, "cls": tree.cls, "root": root, "config": dict(tree.config)}
    optional = {"tied": tree.tied, "may_tie": tree.may_tie, "omitted": tree.omitted}
    return record | {key: value for key, value in optional.items() if value}


def _node(record: Mapping[str, Any], nodes: list[Node]) -> Node:
    call = record.get("call")
    return Node(
        cls=record["cls"],
        kind=Kind(record["kind"]),
        bases=tuple(record.get("bases", ())),
        parameters=tuple(Parameter(name, tuple(shape)) for name, shape in record.get("parameters", {}).items()),
        children=tuple(
            Child(parse_indices(child["indices"]) if "indices" in child else child["name"], nodes[child["node"]])
            for child in record.get("children", ())
        ),
        call=call
        and Call(
            inputs=tuple(call["inputs"]),
            keywords=tuple((name, rank) for name, rank in call["keywords"]),
            outputs=tuple(call["outputs"]),
        ),
        length=record.get("length"),
    )


def _tree(record: Mapping[str, Any], nodes: list[Node]) -> Tree:
    return Tree(
        name=record["name"],
        cls=record["cls"],
        root=nodes[record["root"]],
        config=record["config"],
        tied=tuple(tuple(group) for group in record.get("tied", ())),
        may_tie=tuple(tuple(group) for group in record.get("may_tie", ())),
        omitted=tuple(record.get("omitted", ())),
    )
