"""The grade of a plan by its sums that cross ranks."""

from __future__ import annotations

import pytest

import planlang
from planlang.analysis.cost.ledger import ledger
from planlang.analysis.cost.reductions import Grade, Reductions, reductions
from planlang.analysis.flow.applied import setup
from planlang.analysis.flow.passes import run
from planlang.model import catalog

HEAD = "plan p for Qwen3ForCausalLM\nmesh tp\n"
MODEL = "Qwen/Qwen3-8B"


def of(plan: planlang.Plan, tp: int = 8, model: str = MODEL) -> Reductions:
    compiled = plan.compile(model, tp=tp)
    graph = catalog.graphs(model).passes["plain"].at(2, 16)
    return reductions([ledger(run(setup(compiled.assignments[0], graph, "tp", tp)), "tp", 2)])


@pytest.mark.parametrize(
    ("plan", "grade"),
    [("qwen", "variant"), ("qwen_sequence", "variant"), ("qwen_stable", "forward-invariant")],
)
def test_bundled_plans(plan: str, grade: Grade) -> None:
    assert of(planlang.load(plan)).grade == grade


def test_a_lookup_in_a_cut_vocabulary_is_exact() -> None:
    found = of(planlang.loads(HEAD + "model.embed_tokens: rowwise(in=replicate)\n"))
    assert found.grade == "invariant"
    assert [(entry.module, entry.kind) for entry in found.exact] == [("model.embed_tokens", "all_reduce")]
    assert not found.sums


def test_gradients_that_stay_partial_are_sums() -> None:
    """Only the weight of each norm is a sum over ranks, and it crosses after the backward pass."""
    plan = planlang.load("qwen_stable")
    deferred = [entry for entry in of(plan).sums if entry.phase == "deferred"]
    assert [entry.module.rpartition(".self_attn.")[2] for entry in deferred] == ["q_norm.weight", "k_norm.weight"]
    assert [entry.count for entry in deferred] == [36, 36]


def test_one_rank_has_no_grade() -> None:
    found = of(planlang.load("qwen"), tp=1)
    assert (found.grade, found.sums, found.complete) == (None, (), True)


def test_a_wrong_plan_has_no_grade() -> None:
    found = of(planlang.loads(HEAD + "*.mlp.down_proj: rowwise(in=replicate, out=partial)\n"))
    assert (found.grade, found.complete) == (None, False)
