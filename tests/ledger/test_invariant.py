"""Invariant plans: their sums move what `CommDebugMode` counts, and no more than the plain plan moves; their grade."""

from __future__ import annotations

from dataclasses import replace

import measured
import pytest
import test_comm_debug as debug
import twins
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from transformers import PreTrainedConfig, Qwen3Config

import planlang
from planlang.analysis.cost.bytes import tree_shape
from planlang.analysis.cost.ledger import Ledger, Phase, ledger
from planlang.analysis.cost.reductions import reductions
from planlang.analysis.flow.applied import setup
from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.passes import Pass, run
from planlang.analysis.flow.setup import Setup
from planlang.layout import Conversion, Layout, Replicate, Shard
from planlang.model import catalog
from planlang.model.capture import capture_module
from planlang.plan.styles import Colwise, Prepare, Rowwise, Sequence, Tree
from plans import Plan, expand, right_plans

BLOCKS = 4
WHOLE, TOKENS = Replicate(), Shard(1)
ATTENTION, MLP = "model.layers.*.self_attn", "model.layers.*.mlp"
PROJECTIONS = (*(f"{ATTENTION}.{each}_proj" for each in "qkv"), f"{MLP}.gate_proj", f"{MLP}.up_proj")


def invariant(plan: Plan, reduce: Tree = Tree()) -> Plan:  # noqa: B008 (frozen)
    """The plan with blocks in every style that can have them."""
    return {
        name: replace(style, invariant=BLOCKS, reduce=reduce)
        if isinstance(style, Colwise | Rowwise | Sequence)
        else style
        for name, style in plan.items()
    }


def row(twin: str, **changes: Layout | bool) -> Plan:
    """The row-parallel plan of a twin with blocks; `changes` are arguments of its projections."""
    plan = invariant(right_plans(twin)["row"])
    return plan | {name: replace(plan[name], **changes) for name in PROJECTIONS if changes}  # type: ignore[arg-type]


def walked(twin: str, plan: Plan, tp: int, batch: int = 3, length: int = 10) -> Pass:
    styles = expand(plan, twins.module_names(twin))
    kinds = {name: debug.kind_of(module) for name, module in twins.make(twin).named_modules()}
    applied = {name: Applied(style) for name, style in styles.items()}
    return run(Setup(debug.graph(twin, 1, batch, length), applied, tp, kinds))


def of_catalog(plan: planlang.Plan, model: str, tp: int) -> Ledger:
    compiled = plan.compile(model, tp=tp)
    graph = catalog.graphs(model).passes["plain"].at(2, 16)
    return ledger(run(setup(compiled.assignments[0], graph, "tp", tp)), "tp", 2)


def moved(ledger: Ledger, *phases: Phase) -> int:
    return sum(sums.moved for phase in phases for sums in ledger.totals(phase).values())


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("twin", ["qwen2", "qwen2_tied", "qwen2_score", "qwen3", "qwen3_tied", "qwen3_score"])
def test_the_bundled_plan(twin: str, tp: int) -> None:
    def parallelize(model: nn.Module, mesh: DeviceMesh) -> None:
        planlang.parallelize(model, mesh, "qwen_invariant", blocks=BLOCKS)

    tree = capture_module(twins.make(twin, layers=2), "the twin")
    compiled = planlang.load("qwen_invariant", blocks=BLOCKS).compile(tree, tp=tp).checked()
    ours = ledger(run(setup(compiled.assignments[0], debug.graph(twin, 2, 3, 10), "tp", tp)), "tp", debug.FLOAT64)
    theirs = measured.measure(twins.make(twin, layers=2), twins.inputs(twin), measured.mesh_of(tp), parallelize)
    debug.check(ours, theirs)
    assert bool(ours.entries) == (tp > 1)
    assert all(entry.tree or entry.exact for entry in ours.entries)
    assert not any(entry.phase == "deferred" for entry in ours.entries)


# One hidden state for all projections of a module, as a DTensor: whole, or in parts.
HOISTED: Plan = {
    ATTENTION: Prepare(keywords=(("hidden_states", Conversion(WHOLE, WHOLE)),)),
    MLP: Prepare(inputs=(Conversion(WHOLE, WHOLE),)),
}
PARTS: Plan = {
    ATTENTION: Prepare(keywords=(("hidden_states", Conversion(WHOLE, TOKENS)),)),
    MLP: Prepare(inputs=(Conversion(WHOLE, TOKENS),)),
}
VARIANTS: dict[str, Plan] = {
    "a prepared input": row("qwen3") | HOISTED,
    "a prepared input in parts": row("qwen3") | PARTS,
    "sums in float32": invariant(right_plans("qwen3")["row"], Tree(acc="float32")),
    "tokens between modules": invariant(right_plans("qwen3")["sequence"]),
    "tokens between modules, gathered once": invariant(right_plans("qwen3")["sequence_hoisted"]),
    "columns that are gathered": invariant(right_plans("qwen3")["gathered"]),
    "columns alone": invariant(right_plans("qwen3")["stable"]),
    "two numbers of blocks": row("qwen3") | {f"{ATTENTION}.v_proj": Colwise(invariant=8)},
    "a plain projection among them": row("qwen3") | {f"{ATTENTION}.k_proj": Colwise()},
}


@pytest.mark.parametrize("size", [(2, 3, 8), (4, 2, 16)], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(variant: str, size: tuple[int, int, int]) -> None:
    debug.against_torch("qwen3", VARIANTS[variant], size)


def test_layers_that_share_an_input_sum_its_gradient_once() -> None:
    back = walked("qwen3", row("qwen3"), 2).back
    moves = [move for _, walk in back.called for move in walk.moves] or back.moves
    shared = [move.kind for move in moves if not move.module.endswith("norm")]
    assert shared == ["all_to_all", "all_gather"] * (len(shared) // 2)
    assert len(shared) <= 6  # attention, MLP and maybe the head; not one for each of five projections


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"])
def test_it_moves_no_more_than_the_plain_plan(model: str, tp: int) -> None:
    plain = of_catalog(planlang.load("qwen"), model, tp)
    ours = of_catalog(planlang.load("qwen_invariant"), model, tp)
    assert ours.complete
    assert 0 < moved(ours, "forward") <= moved(plain, "forward")
    # The plain plan's norm weights are summed after the backward pass, the invariant one's in it.
    assert 0 < moved(ours, "backward", "deferred") <= moved(plain, "backward", "deferred")
    assert reductions([ours]).grade == "invariant"
    assert reductions([plain]).grade == "variant"


@pytest.mark.parametrize("tp", [2, 4])
def test_four_blocks_for_four_heads(tp: int) -> None:
    found = reductions([of_catalog(planlang.load("qwen_invariant", blocks=4), "Qwen/Qwen2.5-7B", tp)])
    assert (found.grade, found.sums) == ("invariant", ())
    assert {entry.kind for entry in found.fixed} == {"all_to_all"}
    assert len(found.exact) == 1


MIXED = {
    "*.mlp.{gate,up}_proj: colwise\n*.mlp.down_proj: rowwise(invariant=8)\n": "forward-invariant",
    "*.mlp.{gate,up}_proj: colwise(invariant=8)\n*.mlp.down_proj: rowwise\n": "variant",
    "*.mlp.{gate,up}_proj: colwise(invariant=8)\n*.mlp.down_proj: rowwise(invariant=8)\n": "forward-invariant",
    (
        "*.mlp.{gate,up}_proj: colwise(invariant=8)\n*.mlp.act_fn: sequence(dim=-1, local=true, invariant=8)\n"
        "*.mlp.down_proj: rowwise(invariant=8)\n"
    ): "invariant",
}


@pytest.mark.parametrize("rules", MIXED)
def test_one_plain_rule_is_enough(rules: str) -> None:
    plan = planlang.loads(f"plan p for Qwen3ForCausalLM\nmesh tp\n{rules}")
    assert reductions([of_catalog(plan, "Qwen/Qwen3-8B", 4)]).grade == MIXED[rules]


WRONG: dict[str, Plan] = {
    "a whole input taken for tokens": row("qwen3", in_=TOKENS),
    "a whole input taken for columns": {f"{MLP}.down_proj": Rowwise(invariant=BLOCKS)},
    "columns taken for a whole input": row("qwen3") | {f"{MLP}.down_proj": Rowwise(in_=WHOLE, invariant=BLOCKS)},
    "heads taken for tokens": row("qwen3") | {f"{ATTENTION}.q_norm": Sequence(dim=1, local=True, invariant=2)},
    "a DTensor beside plain tensors": row("qwen3")
    | {f"{MLP}.down_proj": Rowwise(out=WHOLE, local=False, invariant=BLOCKS)},
    "a norm of whole tensors": {"model.norm": Sequence(dim=2, local=True, invariant=BLOCKS)},
    "a norm that no rule reaches": {name: each for name, each in row("qwen3").items() if "q_norm" not in name},
    "blocks that the tokens do not fill": invariant(right_plans("qwen3")["sequence"]),
}


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_plans(name: str, tp: int) -> None:
    found = walked("qwen3", WRONG[name], tp)
    assert found.conflicts or found.wrong
    assert not found.right


def test_chunks_are_filled_up() -> None:
    assert tree_shape("all_to_all", (3, 5), 4) == (16,)
    assert tree_shape("all_gather", (3, 5), 4) == (4,)
    assert tree_shape("all_to_all", (2, 6), 4) == (2, 6)


def small(**settings: float) -> PreTrainedConfig:
    return Qwen3Config(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=1,
        num_attention_heads=8,
        num_key_value_heads=8,
        architectures=["Qwen3ForCausalLM"],
        **settings,
    )


@pytest.mark.parametrize(
    ("settings", "grade"),
    [({"attention_dropout": 0.1}, "forward-invariant"), ({"classifier_dropout": 0.1}, "invariant"), ({}, "invariant")],
    ids=str,
)
def test_dropout_of_a_ranks_part_loses_the_grade(settings: dict[str, float], grade: str) -> None:
    plan = planlang.load("qwen_invariant")
    found = planlang.numerics(plan, small(**settings), tp=2, dtype="float64")
    assert [each.grade for each in found.sizes] == [grade]
    warned = [each.message for each in found.findings if each.code.name == "mixed-invariance"]
    assert warned == (
        ["`attention_dropout` of the model is 0.1, so the plan is not graded `invariant`"]
        if grade != "invariant"
        else []
    )
