"""The keys handed to torch, read as torch reads them: one `fnmatch` a segment over the children of a module."""

import random
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch

import pytest
from test_patterns import modules, random_pattern, random_tree, reached

from planlang.analysis.assign import assign
from planlang.analysis.keys import Keyed, globs, keys
from planlang.analysis.regions import Sites
from planlang.indices import ALL, IndexSet
from planlang.model.intern import group_children
from planlang.model.tree import Child, Kind, Node, Tree
from planlang.plan import ir
from planlang.plan.patterns import TooMany, Uncounted
from planlang.plan.styles import Colwise
from planlang.syntax.parser import parse_target


def read(key: str, node: Node, name: str = "") -> Iterator[str]:
    """The modules that `torch.distributed.tensor.parallel.parallelize_module` applies one key to."""
    if not key:
        yield name
        return
    token, _, rest = key.partition(".")
    for child in node.children:
        for own in map(str, child.name) if isinstance(child.name, IndexSet) else [child.name]:
            if fnmatch(own, token):
                yield from read(rest, child.node, f"{name}.{own}" if name else own)


def plan_of(*entries: ir.Entry) -> ir.Plan:
    return ir.Plan(name="p", classes=("M",), entries=entries)


def rule(pattern: str, level: int = 0, *, override: bool = True) -> ir.Rule:
    return ir.Rule(target=parse_target(pattern), style=Colwise(), level=level, override=override)


def expected(plan: ir.Plan, tree: Tree) -> dict[str, ir.Rule]:
    """Which rule each module follows, by the plain reading of the language."""
    everything = modules(tree)
    following: dict[str, ir.Rule] = {}
    for entry in plan.entries:
        for name in reached(entry.target.pattern, everything):
            match entry:
                case ir.Rule():
                    following[name] = entry
                case ir.Drop() if name in following and following[name].level > entry.level:
                    del following[name]
    return following


def check(found: list[Keyed], plan: ir.Plan, tree: Tree) -> None:
    """The keys reach what they should, and nothing twice."""
    following = expected(plan, tree)
    hits = [(name, keyed.rule) for keyed in found for name in read(keyed.key, tree.root)]
    twice = [name for name, times in Counter(name for name, _ in hits).items() if times > 1]
    shown = [keyed.key for keyed in found]
    assert twice == [], shown
    assert {name: id(each) for name, each in hits} == {name: id(each) for name, each in following.items()}, shown


def random_plan(pick: random.Random, names: list[str]) -> ir.Plan:
    entries: list[ir.Entry] = []
    for level in reversed(range(pick.randrange(1, 4))):
        for _ in range(pick.randrange(1, 5)):
            pattern = random_pattern(pick, names)
            if level < 2 and pick.random() < 0.25:
                entries.append(ir.Drop(target=parse_target(pattern), level=level))
            else:
                entries.append(rule(pattern, level))
    return plan_of(*entries)


@pytest.mark.parametrize("seed", range(70))
def test_keys_of_counted_trees(seed: int) -> None:
    pick = random.Random(seed)
    tree = random_tree(pick)
    names = list(modules(tree))
    for _ in range(8):
        plan = random_plan(pick, names)
        found = keys(assign(plan, Sites(tree)))
        check(found, plan, tree)
        rules = [id(keyed.rule) for keyed in found]
        order = [id(entry) for entry in plan.entries if id(entry) in rules]
        assert list(dict.fromkeys(rules)) == order


def test_a_star_reaches_no_sibling_with_a_name() -> None:
    """Layers of two kinds: below one kind stand numbers, below the other names."""
    leaf = Node("Linear", Kind.LINEAR)
    listed = Node("List", Kind.CONTAINER, children=(Child(IndexSet.of([0, 1]), leaf),), length=2)
    named = Node("Named", Kind.CONTAINER, children=(Child("x", leaf),))
    layers = Node("List", Kind.CONTAINER, children=group_children([("0", listed), ("1", named)]), length=2)
    tree = Tree("m", "M", Node("M", Kind.OTHER, children=(Child("layers", layers),)), {"size": 1})
    for plan in (plan_of(rule("layers.0.*")), plan_of(rule("layers.*.{0..1}")), plan_of(rule("layers.*.x"))):
        check(keys(assign(plan, Sites(tree))), plan, tree)


# Classes of models: keys made once hold for every number of layers.


def class_tree(layers: IndexSet, dense: IndexSet | None, length: int | None = None) -> Tree:
    """A list of layers, those in `dense` of another kind than the others; `layers` may be open."""
    linear, norm = Node("Linear", Kind.LINEAR), Node("Norm", Kind.NORM)

    def listed(children: list[Child], size: int) -> Node:
        return Node("List", Kind.CONTAINER, children=tuple(children), length=None if length is None else size)

    attention = Node("Attention", Kind.OTHER, children=tuple(Child(f"{n}_proj", linear) for n in "qkvo"))
    mlp = Node("Mlp", Kind.OTHER, children=(Child("up", linear), Child("down", linear)))
    expert = Node("Expert", Kind.OTHER, children=(Child("up", linear), Child("gate", linear)))
    experts = listed([Child(ALL if length is None else IndexSet.of(range(4)), expert)], 4)
    moe = Node("Moe", Kind.OTHER, children=(Child("experts", experts),))
    first, second = (
        Node("Layer", Kind.OTHER, children=(Child("attn", attention), Child("mlp", inner), Child("norm", norm)))
        for inner in (mlp, moe)
    )
    kinds = [(layers, first)] if dense is None else [(layers & dense, first), (layers - dense, second)]
    stack = listed([Child(numbers, node) for numbers, node in kinds if numbers], length or 0)
    body = Node("Body", Kind.OTHER, children=(Child("layers", stack), Child("norm", norm)))
    root = Node("M", Kind.OTHER, children=(Child("model", body), Child("head", linear)))
    return Tree("m", "M", root, {} if length is None else {"size": 1})


_LAYERS = ["*", "{0..3}", "{0..11}", "{5,17,100}", "{0..120..7}", "{10..19}", "{1{0..9},2}", "{0..99}", "7"]
_LAYERS += ["{99..101}", "{0..9}"]
_BELOW = ["attn.q_proj", "attn.*", "attn.{k,v}_proj", "**", "norm", "mlp", "mlp.up", "mlp.*.*.up", "*.*"]
_BELOW += ["mlp.experts.{0,2}.gate"]


def open_plan(pick: random.Random) -> ir.Plan:
    entries: list[ir.Entry] = []
    for level in (1, 0):
        for _ in range(pick.randrange(1, 4)):
            pattern = f"model.layers.{pick.choice(_LAYERS)}.{pick.choice(_BELOW)}"
            pattern = pick.choice([pattern, pattern, pattern, "*.*_proj", "** is Linear", "*.norm", "*.experts.*.up"])
            if pick.random() < 0.3:
                pattern += f" except (model.layers.{pick.choice(_LAYERS)}.**)"
            target = parse_target(pattern)
            drop = level == 0 and pick.random() < 0.25
            entries.append(ir.Drop(target=target, level=level) if drop else rule(pattern, level))
    return plan_of(*entries)


@pytest.mark.parametrize("dense", [None, IndexSet.of([0]), IndexSet.of([0, 1, 2, 11, 30])], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_keys_of_classes_hold_for_every_length(seed: int, dense: IndexSet | None) -> None:
    pick = random.Random(seed)
    sites = Sites(class_tree(ALL, dense))
    plan = open_plan(pick)
    found = keys(assign(plan, sites))
    for length in (1, 2, 3, 10, 11, 48, 100, 101, 130):
        check(found, plan, class_tree(IndexSet.of(range(length)), dense, length))


def test_keys_of_a_class_for_1_to_130_layers() -> None:
    def model(layers: IndexSet, length: int | None) -> Tree:
        layer = Node("Layer", Kind.OTHER, children=(Child("norm", Node("Norm", Kind.NORM)),))
        body = Node("List", Kind.CONTAINER, children=(Child(layers, layer),), length=length)
        return Tree("m", "M", Node("M", Kind.OTHER, children=(Child("layers", body),)), {"size": 1} if length else {})

    plan = plan_of(rule("*.norm"), rule("layers.{0..3}.norm"), rule("layers.{17,99..101}.**"), rule("layers.{20..29}"))
    found = keys(assign(plan, Sites(model(ALL, None))))
    for length in range(1, 131):
        check(found, plan, model(IndexSet.of(range(length)), length))


def test_a_star_where_all_layers_follow_one_rule() -> None:
    tree = class_tree(ALL, None)
    found = keys(assign(plan_of(rule("*.q_proj"), rule("*.norm")), Sites(tree)))
    assert [keyed.key for keyed in found] == ["model.layers.*.attn.q_proj", "model.layers.*.norm", "model.norm"]
    found = keys(assign(plan_of(rule("*.q_proj except model.layers.{0..3}.**")), Sites(tree)))
    assert [keyed.key for keyed in found] == [f"model.layers.{n}.attn.q_proj" for n in ("[4-9]", "??*")]


# globs


def _sets() -> list[IndexSet]:
    pick = random.Random(4)
    bounds = [10, 12, 100, 130, 1000, 1999]
    some = [frozenset(pick.sample(range(pick.choice(bounds)), pick.randrange(1, 10))) for _ in range(60)]
    some += [frozenset(range(n)) for n in (0, 1, 9, 10, 11, 99, 100, 101)]
    some += [frozenset(range(10)) - {3}, frozenset(range(10, 100)), frozenset({0}), frozenset({10**6})]
    some += [frozenset(range(0, 1000, 111))]
    return [IndexSet(members, finite) for members in some for finite in (True, False)]


@pytest.mark.parametrize("numbers", _sets(), ids=lambda numbers: f"{len(numbers.members)}-{numbers.finite}")
def test_globs_are_exact_and_disjoint(numbers: IndexSet) -> None:
    patterns = globs(numbers)
    for number in [*range(2001), 10**6, 10**6 + 1]:
        hits = sum(fnmatch(str(number), pattern) for pattern in patterns)
        assert hits == (number in numbers), (number, patterns)


def test_uncounted_is_reported_not_raised() -> None:
    for pattern in ("model.layers.{-1..-1}.norm", "model.layers.1*.norm"):
        assignment = assign(plan_of(rule(pattern)), Sites(class_tree(ALL, None)))
        assert [finding.code.name for finding in assignment.findings] == ["uncounted-layers"]
        assert keys(assignment) == []
    assert issubclass(Uncounted, Exception)
    assert issubclass(TooMany, Exception)
