"""What was measured of torch and transformers, and where checker and simulator are held to it.

Each fact has its cases in the corpora, whose verdict the checker must give; some are run here on small models as well,
where the same plans must come out as they did when they were measured.
"""

from __future__ import annotations

import json

import pytest
import torch

from planlang.cli.main import run
from tests.cases import CORPUS
from tests.twin_runs import outcome

FACTS: dict[int, tuple[str, ...]] = {
    # head norms without a rule: exact logits, wrong gradients; `sequence(dim=2, local=true)` cures it
    1: ("check/seed_plan_of_pr_1235", "published/nemo_rl_stable", "check/head_norms_left_out", "check/right_stable"),
    # an output projection that stays a DTensor in a plain residual stream
    2: ("check/output_projection_keeps_dtensor", "reports/residual_local_and_dtensor"),
    # keys or values left whole between split queries
    3: ("check/keys_left_out", "check/values_left_out"),
    # one key head: left whole beside split queries, and split
    4: ("reports/one_kv_head_for_split_queries", "reports/one_kv_head_split"),
    # a norm that is called split while its input is whole
    5: ("check/block_norm_sequence_alone",),
    # partial sums, and parts of the batch, that are added to what is whole
    6: ("check/output_projection_partial", "check/down_projection_shards_batch"),
    # the sequence cut by one rule alone
    7: ("check/output_projection_shards_sequence",),
    # a rule for one of a tied pair; for both, with the tie restored
    8: ("reports/tied_head_gathers_alone", "reports/right_tied_pair", "check/right_row_tied"),
    # packed projections cut in one piece; as DTensors they are right
    9: ("reports/packed_gate_and_up", "reports/right_packed_and_whole"),
    # a head that keeps its parts; an embedding that takes parts of ids
    10: ("check/head_keeps_parts", "reports/embedding_takes_parts_of_ids"),
    # five all-reduces a layer in the backward pass, or two
    11: ("check/right_row", "check/right_hoisted"),
    # what must stay silent
    12: (
        "reports/right_odd_width_dtensors",
        "reports/right_biases_everywhere",
        "reports/right_one_kv_head_gathered",
        "reports/right_one_rank",
        "check/right_head_left_out",
        "check/right_embedding_left_out",
    ),
    # one entry changed: `tests/simulate/test_edits.py`, and by the thousand `benchmarks/truth`
    13: (),
    # two rules for one module
    14: ("reports/one_module_two_rules", "reports/overlapping_wildcards"),
}
RUN = [
    (1, "check/head_norms_left_out", "qwen3", "gradient"),
    (1, "check/right_stable", "qwen3", "right"),
    (2, "check/output_projection_keeps_dtensor", "qwen3", "crash"),
    (3, "check/keys_left_out", "qwen3", "forward"),
    (4, "reports/one_kv_head_for_split_queries", "llama_one_kv", "gradient"),
    (4, "reports/one_kv_head_split", "llama_one_kv", "crash"),
    (5, "check/block_norm_sequence_alone", "qwen3", "gradient"),
    (6, "check/output_projection_partial", "qwen3", "forward"),
    (7, "check/output_projection_shards_sequence", "qwen3", "crash"),
    (9, "reports/packed_gate_and_up", "phi3", "forward"),
    (9, "reports/right_packed_and_whole", "phi3", "right"),
    (10, "check/head_keeps_parts", "qwen3", "forward"),
    (10, "reports/embedding_takes_parts_of_ids", "qwen3", "forward"),
    (12, "reports/right_odd_width_dtensors", "llama_odd", "right"),
    (12, "reports/right_one_kv_head_gathered", "llama_one_kv", "right"),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


def test_every_fact_has_its_cases() -> None:
    assert list(FACTS) == list(range(1, 15))
    cases = [case for found in FACTS.values() for case in found]
    assert [case for case in cases if not (CORPUS / f"{case}.plan").exists()] == []
    assert {case for _, case, _, _ in RUN} <= set(cases)


@pytest.mark.parametrize(("fact", "case", "config", "verdict"), RUN, ids=[f"{n}-{case}" for n, case, _, _ in RUN])
def test_on_ranks(fact: int, case: str, config: str, verdict: str) -> None:
    found = outcome(CORPUS / f"{case}.plan", config, ranks=2)
    assert found.verdict == verdict, found


def test_a_doubled_gradient_is_as_many_times_too_large_as_there_are_ranks() -> None:
    (wrong,) = outcome(CORPUS / "check" / "block_norm_sequence_alone.plan", "qwen3", ranks=4).gradients
    assert wrong.name == "model.layers.0.input_layernorm.weight"
    assert (wrong.factor, wrong.spread) == pytest.approx((4, 0))


@pytest.mark.parametrize(("plan", "count"), [("right_row", 5), ("right_hoisted", 2)])
def test_backward_collectives_of_a_layer(plan: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = CORPUS / "check" / f"{plan}.plan"
    assert run(["show", str(path), "--model", "Qwen/Qwen3-8B", "--tp", "4", "--comm", "--json"]) == 0
    (axis,) = json.loads(capsys.readouterr().out)["comm"]["axes"]
    found = [
        each["count"]
        for each in axis["collectives"]
        if each["phase"] == "backward" and ".layers." in each["module"] and not each["module"].endswith("_norm")
    ]
    assert sum(found) == 36 * count
