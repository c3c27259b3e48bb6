"""Which rule a module follows: order, `override`, inheritance and `drop`."""

import pytest

from planlang.analysis.assign import Assignment, assign, needless, unmatched
from planlang.analysis.regions import Sites, concrete
from planlang.indices import IndexSet
from planlang.model.tree import Child, Kind, Node, Tree
from planlang.plan import ir
from planlang.plan.styles import Colwise, Rowwise
from planlang.source import Source, Span
from planlang.syntax.parser import parse_target

LAYERS = 4


def tree() -> Tree:
    linear = Node("Linear", Kind.LINEAR)
    layer = Node("Layer", Kind.OTHER, children=(Child("up", linear), Child("down", linear)))
    layers = Node("ModuleList", Kind.CONTAINER, children=(Child(IndexSet.of(range(LAYERS)), layer),), length=LAYERS)
    return Tree("tiny", "M", Node("M", Kind.OTHER, children=(Child("layers", layers), Child("head", linear))), {"n": 1})


def entry(text: str) -> ir.Entry:
    """`2 override PATTERN` or `1 drop PATTERN`: the level, the kind and the pattern."""
    source = Source("plan", text)
    level, _, rest = text.partition(" ")
    kind, _, pattern = rest.partition(" ")
    target = parse_target(pattern)
    place = source.place(Span(0, len(text)))
    if kind == "drop":
        return ir.Drop(target=target, level=int(level), place=place)
    if kind == "expect":
        return ir.Expect(target=target, level=int(level), place=place)
    style = Rowwise() if kind == "override" else Colwise()
    return ir.Rule(target=target, style=style, level=int(level), override=kind == "override", place=place)


def assigned(*texts: str) -> tuple[Assignment, dict[str, int]]:
    """What `assign` says, and the number of the entry that each module follows."""
    entries = tuple(map(entry, texts))
    assignment = assign(ir.Plan(name="p", classes=("M",), entries=entries), Sites(tree()))
    numbers = {id(each): i for i, each in enumerate(entries)}
    following: dict[str, int] = {}
    for site in assignment.sites.all:
        for piece in assignment.rule_of(site):
            for name in concrete(site, piece.box):
                assert name not in following
                following[name] = numbers[id(piece.rule)]
    return assignment, following


def of_layers(name: str, numbers: dict[int, int]) -> dict[str, int]:
    return {f"layers.{layer}.{name}": number for layer, number in numbers.items()}


def codes(assignment: Assignment) -> list[str]:
    return [finding.code.name for finding in assignment.findings]


def test_rules_that_do_not_meet() -> None:
    assignment, following = assigned("0 rule *.up", "0 rule head")
    assert following == of_layers("up", dict.fromkeys(range(4), 0)) | {"head": 1}
    assert codes(assignment) == []


def test_override_replaces_what_it_reaches_and_no_more() -> None:
    assignment, following = assigned("0 rule *.up", "0 override layers.{1,2}.up")
    assert following == of_layers("up", {0: 0, 1: 1, 2: 1, 3: 0})
    assert codes(assignment) == []


def test_override_of_an_override() -> None:
    assignment, following = assigned("0 rule *.up", "0 override layers.{1,2}.*", "0 override layers.{2,3}.up")
    assert following == of_layers("up", {0: 0, 1: 1, 2: 2, 3: 2}) | of_layers("down", {1: 1, 2: 1})
    assert codes(assignment) == []


def test_overlap_is_an_error_that_names_a_module() -> None:
    assignment, _ = assigned("0 rule *.up", "0 rule layers.2.*")
    (finding,) = assignment.findings
    assert finding.code.name == "overlapping-rules"
    assert finding.message == "two rules reach `layers.2.up`"
    assert [related.place.text for related in finding.related] == ["0 rule *.up"]


def test_overlap_is_reported_once_for_each_pair_of_rules() -> None:
    assignment, _ = assigned("0 rule *.up", "0 rule *.down", "0 rule layers.*.*")
    assert codes(assignment) == ["overlapping-rules"] * 2
    assignment, _ = assigned("0 rule *.up", "0 rule layers.0.up", "0 rule layers.0.up")
    assert codes(assignment) == ["overlapping-rules"] * 2


def test_except_keeps_rules_apart() -> None:
    assignment, following = assigned("0 rule *.up except layers.2.**", "0 rule layers.2.*")
    assert following == of_layers("up", {0: 0, 1: 0, 2: 1, 3: 0}) | {"layers.2.down": 1}
    assert codes(assignment) == []


@pytest.mark.parametrize("kind", ["rule", "override"])
def test_a_lower_level_wins_without_a_word(kind: str) -> None:
    assignment, following = assigned("2 rule *.up", "1 rule layers.{0,1}.up", f"0 {kind} layers.1.up")
    assert following == of_layers("up", {0: 1, 1: 2, 2: 0, 3: 0})
    assert codes(assignment) == []


def test_rules_of_an_inherited_plan_may_not_overlap_either() -> None:
    assignment, _ = assigned("1 rule *.up", "1 rule layers.0.up", "0 rule head")
    assert codes(assignment) == ["overlapping-rules"]


def test_an_overlap_is_within_a_file() -> None:
    """The second rule of the extending plan meets both an inherited rule and one of its own file."""
    assignment, following = assigned("1 rule *.up", "0 rule layers.0.up", "0 rule layers.{0,1}.up")
    assert codes(assignment) == ["overlapping-rules"]
    assert following == of_layers("up", {0: 2, 1: 2, 2: 0, 3: 0})
    assert assignment.findings[0].related[0].place.text == "0 rule layers.0.up"


def test_drop_removes_inherited_rules_alone() -> None:
    assignment, following = assigned("1 rule *.up", "0 rule layers.0.up", "0 drop layers.{0,1}.*")
    assert following == of_layers("up", {0: 1, 2: 0, 3: 0})
    assert codes(assignment) == []


def test_a_rule_after_a_drop_is_no_overlap() -> None:
    assignment, following = assigned("1 rule *.up", "0 drop *.up", "0 rule layers.3.up")
    assert following == {"layers.3.up": 2}
    assert codes(assignment) == []


def test_drop_of_every_level_above() -> None:
    _, following = assigned("2 rule *.up", "1 rule *.down", "0 drop layers.{0..2}.*")
    assert following == {"layers.3.up": 0, "layers.3.down": 1}
    _, following = assigned("2 rule *.up", "1 drop layers.0.up", "1 rule head", "0 rule *.down")
    assert "layers.0.up" not in following
    assert "layers.1.up" in following


def test_drop_of_nothing() -> None:
    assignment, _ = assigned("1 rule *.up", "0 drop *.down")
    assert codes(assignment) == ["unmatched-rule"]
    assert "no inherited rule reaches" in assignment.findings[0].message
    assignment, _ = assigned("1 rule *.up", "0 drop *.down?")
    assert codes(assignment) == []


def test_needless_override() -> None:
    assignment, following = assigned("0 rule *.up", "0 override *.down")
    assert following["layers.0.down"] == 1
    assert codes(assignment) == []
    (finding,) = needless([assignment])
    assert finding.code.name == "needless-override"
    assert str(finding.severity) == "warning"
    assert list(needless([assignment, assigned("0 rule *.down", "0 override *.down")[0]])) == []


def test_an_override_that_replaces_something_is_not_needless() -> None:
    for texts in (("0 rule *.up", "0 override *.*"), ("1 rule *.up", "0 override *.up")):
        assert list(needless([assigned(*texts)[0]])) == []


def test_override_that_matches_nothing_is_unmatched_and_not_needless() -> None:
    assignment, _ = assigned("0 rule *.up", "0 override *.left")
    assert codes(assignment) == []
    assert list(needless([assignment])) == []
    assert [each.target for each in assignment.unmatched] == [parse_target("*.left")]


def test_unmatched() -> None:
    texts = ("0 rule *.upp", "0 rule nothing?", "0 expect *.none_such", "1 drop gone")
    assignment, following = assigned(*texts)
    assert following == {}
    plan = ir.Plan(name="p", classes=("M",), entries=tuple(each for each, _ in assignment.reached))
    findings = list(unmatched(plan, [assignment]))
    assert [finding.code.name for finding in findings] == ["unmatched-rule"] * 3
    assert findings[0].message == "the rule matches no module of `tiny`, a `M`"
    assert "`*.up`" in findings[0].help


def test_unruled() -> None:
    assignment, _ = assigned("0 rule layers.{1..2}.up")
    site = next(site for site in assignment.sites.all if site.star == "layers.*.up")
    assert [name for box in assignment.unruled(site) for name in concrete(site, box)] == ["layers.0.up", "layers.3.up"]


def test_the_root_can_have_a_rule() -> None:
    _, following = assigned("0 rule ** except (** is Linear)")
    assert following[""] == 0
    assert "head" not in following
