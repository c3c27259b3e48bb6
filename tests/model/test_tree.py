from dataclasses import replace

import pytest

from planlang.indices import ALL, IndexSet
from planlang.model.generalize import generalize
from planlang.model.intern import Interner, equal
from planlang.model.store import dump, load
from planlang.model.tree import Call, Child, Kind, Node, Parameter, Tree


def linear(out: int, inner: int) -> Node:
    return Node("Linear", Kind.LINEAR, parameters=(Parameter("weight", (out, inner)),), call=Call((3,), (), (3,)))


def model(layers: int = 3, width: int = 4, tied: bool = True, **settings: int) -> Tree:
    """An embedding, a list of layers whose first is wider than the others, and a head."""
    first = Node("Layer", Kind.OTHER, ("Base",), children=(Child("up", linear(3 * width, width)),))
    other = Node("Layer", Kind.OTHER, ("Base",), children=(Child("up", linear(2 * width, width)),))
    blocks = Node(
        "ModuleList",
        Kind.CONTAINER,
        children=(Child(IndexSet.of([0]), first), Child(IndexSet.of(range(1, layers)), other)),
        length=layers,
    )
    embedding = Node("Embedding", Kind.EMBEDDING, parameters=(Parameter("weight", (10, width)),))
    root = Node(
        "Model",
        Kind.OTHER,
        children=(Child("embed", embedding), Child("layers", blocks), Child("head", linear(10, width))),
    )
    pairs = (("embed.weight", "head.weight"),) if tied else ()
    return Tree("tiny", "Model", root, {"width": width, "rate": 0.5, "kind": None, **settings}, pairs)


def test_size_counts_every_layer_and_tied_tensors_once() -> None:
    assert model(tied=False).size() == 10 * 4 + 12 * 4 + 2 * (8 * 4) + 10 * 4
    assert model(tied=True).size() == model(tied=False).size() - 10 * 4


def test_modules_are_found_by_name() -> None:
    tree = model()
    assert tree.find("") is tree.root
    assert tree.find("layers.0.up") != tree.find("layers.1.up")
    assert tree.find("layers.1") is tree.find("layers.2")
    assert tree.find("layers.3") is None
    assert tree.find("layers.one") is None


def test_walk_gives_parents_first_and_keeps_the_order() -> None:
    paths = [".".join(map(str, path)) for path, _ in model().walk()]
    assert paths == ["", "embed", "layers", "layers.{0}", "layers.{0}.up", "layers.{1,2}", "layers.{1,2}.up", "head"]


def test_interned_nodes_are_one_object_where_they_are_equal() -> None:
    interner = Interner()
    assert interner.adopt(model().root) is interner.adopt(model().root)
    assert interner.adopt(model().root) is not interner.adopt(model(layers=4).root)


def test_round_trip() -> None:
    trees = {"Model": model(), "class": generalize([model(), model(layers=5)])}
    trees["part"] = replace(model(width=8), omitted=("visual",))
    text = dump(trees)
    again = load(text)
    assert list(again) == list(trees)
    assert all(equal(again[key], trees[key]) for key in trees)
    assert dump(again) == text


def test_equal_nodes_are_stored_once() -> None:
    assert dump({"a": model(), "b": model()}).count('"cls": "Embedding"') == 1


@pytest.mark.parametrize(
    "other",
    [
        model(tied=False),
        model(layers=4),
        model(width=8),
        model(extra=1),
        replace(model(), cls="Other"),
        replace(model(), may_tie=(("a", "b"),)),
        replace(model(), omitted=("visual",)),
    ],
)
def test_different_trees_are_not_equal(other: Tree) -> None:
    assert not equal(model(), other)


def test_names_make_no_difference() -> None:
    assert equal(model(), replace(model(), name="other"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2, "trees": {}, "nodes": []}'])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is json's in the first case
        load(text)


def test_a_class_has_any_number_of_layers_and_no_sizes() -> None:
    tree = generalize([model(), model(layers=5, width=8, tied=False)])
    assert (tree.name, tree.cls, tree.is_class, tree.tied) == ("Model", "Model", True, ())
    assert tree.may_tie == (("embed.weight", "head.weight"),)
    layers = tree.find("layers")
    assert layers is not None
    assert layers.length is None
    assert [child.name for child in layers.children] == [ALL]
    up = tree.find("layers.1000.up")
    assert up is not None
    assert up.parameters == (Parameter("weight", (-1, -1)),)
    assert up.call == Call((3,), (), (3,))


def with_children(*children: Child) -> Tree:
    return Tree("m", "M", Node("M", Kind.OTHER, children=children), {"a": 1})


def leaf(cls: str, **fields: object) -> Node:
    return replace(Node(cls, Kind.OTHER), **fields)


def test_layers_of_several_classes_stay_apart() -> None:
    nodes = (Child(IndexSet.of([0]), leaf("Dense")), Child(IndexSet.of([1, 2]), leaf("Sparse")))
    tree = generalize([with_children(Child("layers", Node("ModuleList", Kind.CONTAINER, children=nodes)))])
    layers = tree.find("layers")
    assert layers is not None
    assert [(child.name, child.node.cls) for child in layers.children] == [(ALL, "Dense"), (ALL, "Sparse")]


def test_children_of_one_name_and_several_classes_stay_apart() -> None:
    tree = generalize([with_children(Child("mlp", leaf("Dense"))), with_children(Child("mlp", leaf("Sparse")))])
    assert [(child.name, child.node.cls) for child in tree.root.children] == [("mlp", "Dense"), ("mlp", "Sparse")]


def test_children_that_only_some_models_have_stand_where_they_stood() -> None:
    some, all_ = ("a", "c"), ("a", "b", "c", "d")
    trees = [with_children(*(Child(name, leaf("L")) for name in names)) for names in (some, all_)]
    assert [child.name for child in generalize(trees).root.children] == list(all_)


def test_what_models_disagree_on_is_not_kept() -> None:
    one = leaf("L", bases=("A", "B"), parameters=(Parameter("w", (2,)), Parameter("b", (2,))), call=Call((3,)))
    two = leaf("L", bases=("B",), parameters=(Parameter("w", (2, 2)), Parameter("b", (4,))), call=Call((2,)))
    child = generalize([with_children(Child("x", one)), with_children(Child("x", two))]).root.children[0].node
    assert child.bases == ("B",)
    assert child.parameters == (Parameter("b", (-1,)),)
    assert child.call is None


def test_a_class_of_a_class_is_the_class() -> None:
    once = generalize([model(), model(layers=5)])
    assert equal(generalize([once]), once)


def test_trees_of_several_classes_have_no_class() -> None:
    with pytest.raises(ValueError, match="of one class, got Model, Other"):
        generalize([model(), replace(model(), cls="Other")])
    with pytest.raises(ValueError, match="got none"):
        generalize([])
