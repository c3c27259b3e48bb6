"""The benchmark of the reward model, in miniature: frozen pairs, counts, the gate, one model on its way through all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.reward_model import data, results, steps
from benchmarks.reward_model.counts import count, mcnemar
from benchmarks.reward_model.gate import must_be_equal, unequal_processes, unequal_scores, wrong_training
from benchmarks.reward_model.page import BEGIN, END, tables
from benchmarks.reward_model.recipe import MINIATURE, STANDARD
from benchmarks.reward_model.results import Processes, Scored, Stepped

ROOT = Path(__file__).parent.parent.parent
COMMITTED = ROOT / "benchmarks" / "reward_model"
EQUAL = Scored(
    plan="some",
    text="",
    grade="forward-invariant",
    dtype="float32",
    tp=2,
    seed=0,
    weights="",
    set="random",
    against="unsharded",
    pairs=10,
    correct=7,
    ties=0,
    changed=0,
    lost=0,
    gained=0,
    scores=20,
    differing=0,
    ranks_equal=True,
)
RIGHT = Stepped(
    plan="ours",
    role="ours",
    grade="forward-invariant",
    dtype="float32",
    tp=2,
    steps=5,
    seed=0,
    group="others",
    spread=0.0,
    distance=0.001,
    worst=0.002,
    worst_name="weight",
    loss_first=1.0,
    loss_last=0.5,
    loss_one_process=0.5,
    loss_spread=0.0,
    loss_off=0.0,
    against="one process",
    numbers=100,
    differing=90,
    losses_differing=3,
)
APART = replace(RIGHT, plan="published", role="published", grade="not graded", spread=0.01)
SAME = replace(RIGHT, plan="same", grade="invariant", against="mesh of one", differing=0, losses_differing=0)
REAL = Processes(plan="some", dtype="float32", tp=2, seed=0, set="random", scores=20, differing=0)


@pytest.mark.parametrize("recipe", [STANDARD, MINIATURE], ids=["standard", "miniature"])
def test_sets_are_those_that_were_frozen(recipe: object) -> None:
    sets = data.frozen_sets(recipe.pairs)
    assert tuple(sets.pairs) == data.SETS
    for name, pairs in sets.pairs.items():
        preferred, other = sets.sequences[pairs].unbind(1)
        assert len(pairs) == recipe.pairs
        assert (data.rule(preferred) > data.rule(other)).all()
        assert ((preferred != other).sum(1) == 1).all() or name != "one-token"


def test_other_sets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_SETS_SEED", 3)
    with pytest.raises(data.NotFrozenError, match="random"):
        data.frozen_sets(MINIATURE.pairs)


@pytest.mark.parametrize(
    ("lost", "gained", "p"),
    [(0, 0, 1), (1, 0, 1), (3, 3, 1), (5, 0, 2 / 32), (0, 6, 2 / 64), (1, 5, 14 / 64), (2, 8, 112 / 1024)],
)
def test_mcnemar_by_hand(lost: int, gained: int, p: float) -> None:
    assert mcnemar(lost, gained) == p


def test_counts_by_hand() -> None:
    pairs = torch.tensor([[0, 1], [2, 3], [4, 5], [0, 4]])
    reference = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    scores = torch.tensor([1.0, 0.0, 0.0, 0.0, 2.0, 1.0])
    found = count(scores, reference, pairs)  # right; a tie that was right; right that was wrong; wrong that was right
    assert (found.pairs, found.correct, found.ties, found.changed) == (4, 2, 1, 3)
    assert (found.lost, found.gained) == (2, 1)
    assert (found.scores, found.differing) == (8, 3)  # rows 2 and 4, of which the second stands in two pairs


def test_zeros_of_both_signs_are_different_bits() -> None:
    found = count(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0]), torch.tensor([[1, 0]]))
    assert (found.changed, found.differing) == (0, 1)


def test_gate_of_scores() -> None:
    assert unequal_scores([EQUAL]) == []
    assert unequal_scores([EQUAL, replace(EQUAL, grade="variant", differing=5)]) == []
    assert unequal_scores([EQUAL, replace(EQUAL, grade="not graded", differing=5)]) == []
    assert "1 of 20 scores" in unequal_scores([EQUAL, replace(EQUAL, differing=1)])[0]
    assert "1 of 20 scores" in unequal_scores([replace(EQUAL, grade="invariant", differing=1)])[0]
    assert "the ranks" in unequal_scores([replace(EQUAL, ranks_equal=False)])[0]
    # A plan that is its own reference may differ from the unsharded model, on a mesh of one.
    assert unequal_scores([EQUAL, replace(EQUAL, grade="invariant", tp=1, differing=5)]) == []
    assert unequal_scores([]) == unequal_scores([replace(EQUAL, grade="variant")]) != []


def test_gate_of_training() -> None:
    assert wrong_training([RIGHT, APART]) == []
    assert wrong_training([RIGHT, replace(APART, spread=0.0, distance=0.5)]) == []
    assert "ours at tp=2" in wrong_training([replace(RIGHT, spread=1e-9), APART])[0]
    assert "ours at tp=2" in wrong_training([replace(RIGHT, distance=0.01), APART])[0]
    assert "ours at tp=2" in wrong_training([replace(RIGHT, distance=float("nan")), APART])[0]
    assert "must not" in wrong_training([RIGHT, replace(APART, spread=0.0)])[0]
    assert "in bfloat16" in wrong_training([replace(RIGHT, dtype="bfloat16", spread=1e-9), APART])[0]
    # How far rounding goes in bfloat16 is not ours to judge.
    assert wrong_training([replace(RIGHT, dtype="bfloat16", distance=0.01), APART]) == []
    assert len(wrong_training([])) == 2


def test_gate_of_the_bits_of_training() -> None:
    assert wrong_training([RIGHT, SAME, APART]) == []
    assert "1 of 100 weights" in wrong_training([RIGHT, replace(SAME, differing=1), APART])[0]
    assert "1 of 5 losses" in wrong_training([RIGHT, replace(SAME, losses_differing=1), APART])[0]
    # A mesh of one is the reference, and has other bits than one process.
    assert wrong_training([RIGHT, SAME, replace(SAME, tp=1, against="one process", differing=90), APART]) == []
    # Of a count that is nothing everywhere nobody knows whether it counts; a wrong plan's does not show it.
    silent = replace(RIGHT, differing=0, losses_differing=0)
    assert "sees nothing" in wrong_training([silent, SAME, APART])[0]
    assert "in bfloat16" in wrong_training([RIGHT, SAME, replace(SAME, dtype="bfloat16"), APART])[0]


def test_gate_of_real_processes() -> None:
    assert unequal_processes([REAL], [EQUAL]) == []
    assert "1 of 20 scores of real" in unequal_processes([replace(REAL, differing=1)], [EQUAL])[0]
    assert unequal_processes([replace(REAL, differing=1)], [replace(EQUAL, grade="variant")]) == []


def test_one_bit_of_one_rank_is_counted() -> None:
    weight = torch.tensor([1.0, -0.0, 3.0])
    other = torch.tensor([1.0, 0.0, 3.0])
    start = dict.fromkeys(("q_norm.weight", "mlp.weight"), weight)

    def trail(*ranks: torch.Tensor) -> steps.Trail:
        return steps.Trail({**dict.fromkeys(start, [weight] * len(ranks)), "mlp.weight": list(ranks)}, [[0.5]])

    assert [steps.differing([name], trail(weight, other), trail(weight)) for name in start] == [0, 1]
    assert [steps.differing([name], trail(weight, weight), trail(weight)) for name in start] == [0, 0]


def test_the_last_measurement_of_a_thing_counts(tmp_path: Path) -> None:
    results.append(tmp_path / "r", [replace(EQUAL, correct=1), replace(EQUAL, seed=1)])
    results.append(tmp_path / "r", [EQUAL])
    assert results.latest(results.read(tmp_path / "r"), Scored) == [EQUAL, replace(EQUAL, seed=1)]


def test_page_is_made_of_the_results() -> None:
    text = (COMMITTED / "README.md").read_text(encoding="utf-8")
    shown = text.partition(BEGIN)[2].partition(END)[0]
    assert shown == tables(results.read(COMMITTED / "results.jsonl"))


@pytest.mark.slow
def test_one_model_goes_through_all(tmp_path: Path) -> None:
    """Whole processes, since a simulation must not meet the meshes of other tests."""
    file, page = tmp_path / "results.jsonl", tmp_path / "page.md"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchmarks.reward_model", *words, "--miniature"]
        command += ["--results", str(file), "--page", str(page)]
        return subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)

    cached = ("--cache", str(tmp_path))
    assert run("train", *cached, "--seeds", "0").returncode == 0
    some = ("--seeds", "0", "--tp", "2", "--dtypes", "float32")
    done = run("eval", *cached, *some)
    scored = results.latest(results.read(file), Scored)
    assert {(each.plan, each.grade, each.tp) for each in scored} == {
        ("none", "not graded", 1),
        ("qwen", "variant", 2),
        ("qwen_stable", "forward-invariant", 2),
        ("qwen_invariant", "invariant", 2),
    }
    assert {each.against for each in scored if each.plan == "qwen_invariant"} == {"mesh of one"}
    assert len(scored) == 4 * len(data.SETS)
    # Whether kernels keep their bits at these small widths is the machine's; that the gate sees it is ours.
    held = [each for each in scored if must_be_equal(each)]
    assert len(held) == 2 * len(data.SETS)
    assert done.returncode == any(not each.bitwise for each in held), done.stderr
    before = file.read_text()
    run("eval", *cached, *some)
    assert file.read_text() == before  # nothing is measured again

    broken = [json.loads(line) for line in before.splitlines()]
    for row in broken:
        if row.get("grade") == "forward-invariant":
            row["differing"] = 1
    file.write_text("".join(json.dumps(row) + "\n" for row in broken))
    failed = run("gate")
    assert failed.returncode == 1
    assert "qwen_stable is graded forward-invariant, and 1 of 80 scores" in failed.stderr

    trained = run("steps", "--tp", "2", "--dtypes", "float32")
    stepped = results.latest(results.read(file), Stepped)
    norms = [each for each in stepped if "norms" in each.group]
    assert {(each.plan, each.spread > 0) for each in norms if each.tp > 1} == {
        ("qwen", False),
        ("qwen_stable", False),
        ("qwen_invariant", False),
        ("published", True),
    }
    own = [each for each in stepped if each.plan == "qwen_invariant"]
    assert {(each.tp, each.against) for each in own} == {(1, "one process"), (2, "mesh of one")}
    assert trained.returncode == any(not each.bitwise for each in own if each.tp > 1), trained.stderr
    assert all(f"| {name} | 2 |" in page.read_text() for name in ("qwen_stable", "qwen_invariant"))
