"""Patterns against a matcher of another make: every module's name is written out, and each is tried by itself."""

import random
from collections.abc import Iterator
from functools import cache

import pytest

from planlang.analysis.match import region
from planlang.analysis.regions import Box, Sites, concrete, intersect
from planlang.indices import ALL, IndexSet
from planlang.model.intern import group_children
from planlang.model.tree import Child, Kind, Node, Tree
from planlang.plan.patterns import Uncounted
from planlang.syntax import nodes
from planlang.syntax.parser import parse_target
from planlang.syntax.printer import pattern_text

NAMES = ["a", "b", "ab", "q_proj", "k_proj", "mlp", "norm", "x1"]


# Trees, and their modules one by one: name -> (class, bases, lengths of the lists by depth).


def random_tree(pick: random.Random, *, mixed: bool = True) -> Tree:
    """A small tree with lists in lists, layers of several kinds and children that are named beside numbered ones."""
    return Tree("tiny", "Root", _node(pick, 3, mixed), {"size": 1})


def _node(pick: random.Random, depth: int, mixed: bool) -> Node:
    cls = pick.choice(["Linear", "Norm", "Block", "Special"])
    bases = pick.choice([(), ("Base",), ("Linear", "Base")])
    if depth == 0 or pick.random() < 0.2:
        return Node(cls, Kind.LINEAR, bases)
    pairs: list[tuple[str, Node]] = []
    length = None
    if pick.random() < 0.45:
        length = pick.choice([1, 2, 3, 5, 12])
        kinds = [_node(pick, depth - 1, mixed) for _ in range(pick.choice([1, 1, 2, 3]))]
        pairs += [(str(number), pick.choice(kinds)) for number in range(length)]
        if mixed and pick.random() < 0.3:
            pairs.insert(pick.randrange(length + 1), (pick.choice(NAMES), _node(pick, depth - 1, mixed)))
    else:
        for name in pick.sample(NAMES, pick.randrange(1, 4)):
            pairs.append((name, _node(pick, depth - 1, mixed)))
    return Node(cls, Kind.CONTAINER, bases, children=group_children(pairs), length=length)


def modules(tree: Tree) -> dict[str, tuple[Node, tuple[int | None, ...]]]:
    """Every module by name, with the length of the list in which each segment of the name is a number."""
    found: dict[str, tuple[Node, tuple[int | None, ...]]] = {}

    def visit(name: str, node: Node, lengths: tuple[int | None, ...]) -> None:
        found[name] = (node, lengths)
        for child in node.children:
            listed = isinstance(child.name, IndexSet)
            for own in map(str, child.name) if isinstance(child.name, IndexSet) else [child.name]:
                visit(f"{name}.{own}" if name else own, child.node, (*lengths, node.length if listed else None))

    visit("", tree.root, ())
    return found


# Patterns, as text.


def random_pattern(pick: random.Random, names: list[str]) -> str:
    text = _path(pick, names)
    for _ in range(pick.choice([0, 0, 0, 1, 2])):
        if pick.random() < 0.5:
            text += f" is {pick.choice(['Linear', 'Norm', 'Base', 'Root', 'None_'])}"
        else:
            other = random_pattern(pick, names) if pick.random() < 0.3 else _path(pick, names)
            text += f" except ({other})"
    return text


def _path(pick: random.Random, names: list[str]) -> str:
    """A real name with its segments blurred, or anything."""
    if pick.random() < 0.8:
        segments = [_blurred(pick, segment) for segment in pick.choice(names).split(".") if segment]
        if segments and pick.random() < 0.4:
            segments[: pick.randrange(len(segments))] = [pick.choice(["*", "**"])]
        if segments and pick.random() < 0.2:
            segments[pick.randrange(len(segments))] = "**"
    else:
        segments = [_blurred(pick, pick.choice([*NAMES, "0", "3"])) for _ in range(pick.randrange(1, 4))]
    return ".".join(segments or ["**"])


def _blurred(pick: random.Random, segment: str) -> str:
    head, tail = segment[:1], segment[1:]
    choices = [segment, segment, "*", f"{{{segment},b}}", f"{{,{segment}}}", f"{head}*", f"*{segment[-1:]}"]
    choices += [f"{head}{{{tail},,zz}}", f"{{{{{segment},a}},{{b,*_proj}}}}", f"{{*,{segment}}}", f"{{{segment}}}{{,}}"]
    if segment.isdigit():
        first, last = sorted(pick.sample(range(13), 2))
        choices += [f"{{{first}..{last}}}", f"{{{first}..{last}..{pick.randrange(1, 5)}}}"]
        choices += [f"{{{-last - 1}..{-first - 1}}}", f"{{{first}..-{last}}}", f"{{-{last + 1}..{first}}}"]
        choices += [f"{{-{last + 1}..-1..2}}", f"{{0,{{2..{last + 2}}}}}", "1{0..1}", "{0..1}{,0,1}"]
        choices += [f"{{0..0}}{segment}"]
    return pick.choice(choices)


# The other matcher: recursive, over text and the names of segments, with every list's length at hand.


def reached(pattern: nodes.Pattern, all_modules: dict[str, tuple[Node, tuple[int | None, ...]]]) -> set[str]:
    match pattern:
        case nodes.Except():
            return reached(pattern.base, all_modules) - reached(pattern.without, all_modules)
        case nodes.OfClass():
            return {
                name
                for name in reached(pattern.base, all_modules)
                if pattern.cls.text in (all_modules[name][0].cls, *all_modules[name][0].bases)
            }
        case _:
            return {
                name
                for name, (_, lengths) in all_modules.items()
                if _fits(list(pattern.segments), name.split(".") if name else [], list(lengths))
            }


def _fits(segments: list[nodes.Segment | nodes.AnyDepth], names: list[str], lengths: list[int | None]) -> bool:
    if not segments:
        return not names
    if isinstance(segments[0], nodes.AnyDepth):
        return any(_fits(segments[1:], names[i:], lengths[i:]) for i in range(len(names) + 1))
    if not names or not any(rest == "" for rest in _rests(list(segments[0].parts), names[0], lengths[0])):
        return False
    return _fits(segments[1:], names[1:], lengths[1:])


def _rests(parts: list[nodes.Part], text: str, length: int | None) -> Iterator[str]:
    """What can be left of `text` behind a match of all parts."""
    if not parts:
        yield text
        return
    part, *others = parts
    heads: list[str] = []
    match part:
        case nodes.Literal():
            heads = [part.text]
        case nodes.Star():
            heads = [text[:i] for i in range(len(text) + 1)]
        case nodes.Range():
            heads = list(_numbers(part.first, part.last, part.step, length))
        case nodes.Choice():
            for option in part.options:
                for rest in _rests(list(option), text, length):
                    yield from _rests(others, rest, length)
            return
    for head in heads:
        if text.startswith(head):
            yield from _rests(others, text[len(head) :], length)


@cache
def _numbers(first: int, last: int, step: int, length: int | None) -> tuple[str, ...]:
    if (first < 0 or last < 0) and length is None:
        return ()  # a name that is in no list
    first, last = (end + (length or 0) if end < 0 else end for end in (first, last))
    return tuple(str(number) for number in range(first, last + 1, step) if number >= 0)


def disjoint(boxes: list[Box]) -> bool:
    return all(intersect(a, b) is None for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("seed", range(60))
def test_patterns_match_what_another_matcher_says(seed: int) -> None:
    pick = random.Random(seed)
    tree = random_tree(pick)
    sites = Sites(tree)
    everything = modules(tree)
    for _ in range(40):
        text = random_pattern(pick, list(everything))
        pattern = parse_target(text).pattern
        found = region(pattern, sites)
        names = [name for number, boxes in found.items() for box in boxes for name in concrete(sites.all[number], box)]
        assert len(names) == len(set(names)), text
        assert set(names) == reached(pattern, everything), text
        assert all(disjoint(boxes) and boxes for boxes in found.values()), text
        again = parse_target(pattern_text(pattern)).pattern
        assert region(again, sites) == found


def test_most_random_patterns_match_something() -> None:
    pick = random.Random(0)
    everything = modules(random_tree(pick))
    texts = [random_pattern(pick, list(everything)) for _ in range(300)]
    hits = [text for text in texts if reached(parse_target(text).pattern, everything)]
    assert len(hits) > 150


# A class of models: the list of layers is open, so that what is found is compared with models of every length.


def _model(layers: IndexSet, length: int | None) -> Tree:
    linear = Node("Linear", Kind.LINEAR)
    layer = Node("Layer", Kind.OTHER, children=(Child("q_proj", linear), Child("mlp", Node("Mlp", Kind.OTHER))))
    blocks = Node("ModuleList", Kind.CONTAINER, children=(Child(layers, layer),), length=length)
    body = Node("Body", Kind.OTHER, children=(Child("layers", blocks), Child("final_norm", Node("Norm", Kind.NORM))))
    return Tree("m", "M", Node("M", Kind.OTHER, children=(Child("model", body), Child("head_proj", linear))))


@pytest.mark.parametrize(
    "text",
    [
        "**", "*.q_proj", "*.*_proj", "model.*.*", "model.layers.*", "model.layers.{0..3}.q_proj",
        "model.layers.{0,7}.**", "model.layers.{0..9..3}.mlp", "model.layers.* except model.layers.{0,1}",
        "** is Linear", "*.{0,1}{,0..9}.mlp", "model.layers.{*}.mlp", "model.layers.{*,0}.mlp", "model.**.*norm",
        "**.{a*,3,mlp}", "model.layers.{,1}{,1}{,1}", "{*_proj,x}", "model.layers.{1{0..3},{5..6}}.mlp",
        "model.layers.00.mlp", "model.layers.{0..12}.** except **.{3..5}.** except ** is Linear",
        "model.layers.*{,}.mlp", "*.{00,01,1}.mlp",
    ],
)  # fmt: skip
def test_open_lists_are_lists_of_every_length(text: str) -> None:
    pattern = parse_target(text).pattern
    sites = Sites(_model(ALL, None))
    found = region(pattern, sites)
    for length in (1, 2, 7, 40):
        counted = Sites(_model(IndexSet.of(range(length)), length))
        have = [IndexSet.of(range(length))]
        names = {
            name
            for number, boxes in found.items()
            for box in boxes
            if (here := intersect(box, tuple(have[: len(box)]))) is not None
            for name in concrete(counted.all[number], here)
        }
        assert names == reached(pattern, modules(counted.tree)), (text, length)


@pytest.mark.parametrize(
    "text", ["model.layers.{-2..-1}.mlp", "*.{-1..-1}.mlp", "model.layers.1*", "**.{2*,x}.mlp", "*.{0..3}*"]
)
def test_what_needs_a_count_says_so(text: str) -> None:
    pattern = parse_target(text).pattern
    with pytest.raises(Uncounted):
        region(pattern, Sites(_model(ALL, None)))
    counted = _model(IndexSet.of(range(24)), 24)
    assert region(pattern, Sites(counted))


def test_a_count_from_the_end_asks_nothing_of_names() -> None:
    """`*.{-1..-1}.mlp` is tried at every depth; only a list has a last index."""
    sites = Sites(_model(IndexSet.of(range(24)), 24))
    found = region(parse_target("*.{-1..-1}.mlp").pattern, sites)
    assert [list(concrete(sites.all[n], box)) for n, boxes in found.items() for box in boxes] == [
        ["model.layers.23.mlp"]
    ]
