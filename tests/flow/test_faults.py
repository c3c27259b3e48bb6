"""What the check makes of the faults of several passes: one finding a mistake, and never none where a pass is wrong."""

from __future__ import annotations

import pytest

from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.faults import Occurrence, Probe, gather, probes, spots
from planlang.analysis.flow.gradients import Wrong
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.words import and_list, module_text, together
from planlang.layout import Partial, Replicate, Shard
from planlang.plan.styles import Colwise, Replicated, Rowwise, Sequence, Style
from tests.flow.test_agreement import ATTENTION, base, walked
from tests.simulate import plans, twins

LAYER = "model.layers.0"


def passes(styles: dict[str, Style], ranks: int = 2) -> list[tuple[Probe, Pass]]:
    plain = Probe("plain", 3, 10), Probe("plain", 2, 10), Probe("step", 3, 1)
    return [(each, walked("qwen3", styles, ranks, each.batch, each.length)) for each in plain]


def changed(**edits: Style | None) -> dict[str, Style]:
    styles = base()
    for key, style in edits.items():
        name = next((each for each in styles if each.endswith(key)), f"{LAYER}.{key}")
        styles.pop(name, None)
        if style is not None:
            styles[name] = style
    return styles


def test_modules_side_by_side_are_one_fault() -> None:
    styles = {name: style for name, style in base().items() if not name.endswith(("q_norm", "k_norm"))}
    (found,) = gather(passes(styles))
    assert isinstance(found.what, Wrong)
    norms = [f"{ATTENTION}.{each}_norm.weight".replace(".0.", ".*.") for each in "qk"]
    assert sorted(found.parameters) == sorted(norms)


def test_what_follows_from_a_fault_is_left_out() -> None:
    found = gather(passes(changed(embed_tokens=Rowwise(in_=Replicate(), out=Shard(1)))))
    assert [isinstance(each.what, Conflict) for each in found] == [True]
    assert len(spots(passes(changed(embed_tokens=Rowwise(in_=Replicate(), out=Shard(1)))))) > 1


EDITS = [
    {module: style}
    for module in ("embed_tokens", "q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "q_norm", "lm_head")
    for style in (
        None,
        Colwise(),
        Rowwise(),
        Rowwise(out=Partial()),
        Rowwise(out=Shard(0)),
        Colwise(out=Replicate(), local=False),
        Sequence(),
        Sequence(dim=2, local=True),
        Replicated(grad="sum"),
    )
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_a_pass_that_is_not_right_always_has_a_finding(edit: dict[str, Style | None]) -> None:
    walks = passes(changed(**edit))
    assert all(each.right for _, each in walks) == (not gather(walks))


def test_a_cure_takes_away_all_that_it_is_for() -> None:
    (found,) = gather(passes(changed(k_proj=None)))
    assert found.spots
    assert found.spots <= spots(passes(changed(k_proj=None))).keys()
    assert not found.spots & spots(passes(base())).keys()


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 16])
def test_probes_lie_above_at_and_below_the_number_of_ranks(ranks: int) -> None:
    found = probes(ranks)
    assert found[0].kind == "plain"
    assert {max(-1, min(1, each.batch - ranks)) for each in found} == {-1, 0, 1}
    assert {each.length % ranks == 0 for each in found} == {True, False}
    assert 1 in {each.length for each in found}
    assert all(each.length <= 64 + 1 for each in found)


def test_where_a_fault_happens_is_told_only_where_it_is_not_everywhere() -> None:
    all_probes = probes(4)
    fault = Conflict(Fault.MIXED, "a plain tensor meets a DTensor")
    assert Occurrence(fault, all_probes[0], seen=list(all_probes)).where(all_probes, 4) == ""
    single = [each for each in all_probes if each.length == 1]
    assert "length 1" in Occurrence(fault, single[0], seen=single).where(all_probes, 4)


def test_names_are_put_together() -> None:
    assert together(["a.*.q_proj", "a.*.k_proj", "b"]) == ["a.*.{q,k}_proj", "b"]
    assert together(["a.gate_proj", "a.norm"]) == ["a.{gate_proj,norm}"]
    assert together(["a", "a"]) == ["a"]
    assert and_list(["a", "b", "c"]) == "a, b and c"
    assert and_list(["a"]) == "a"
    assert and_list([]) == ""
    assert module_text("", []) == "the model"
    assert module_text("model.layers.3.mlp", ["model.layers.3", "model.layers.4"]) == "`model.layers.*.mlp` (2 layers)"


def test_what_fails_for_lone_tokens_hides_no_fault_of_the_backward_pass() -> None:
    """The tied weight lies as the embedding has it, and the gradient of the head's uneven parts is left with gaps."""
    styles = dict(plans.expand(plans.right_plans("gemma3")["sequence"], twins.module_names("gemma3")))
    styles["lm_head"] = Rowwise(out=Shard(1), local=False)
    sizes = Probe("plain", 3, 10), Probe("plain", 3, 7), Probe("step", 3, 1)
    found = gather([(each, walked("gemma3", styles, 2, each.batch, each.length)) for each in sizes])
    conflicts = [(each.what.backward, each.seen) for each in found if isinstance(each.what, Conflict)]
    assert (True, [sizes[1]]) in conflicts
