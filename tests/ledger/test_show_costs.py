"""`planlang show --comm`, `--reductions` and `--memory`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planlang.cli.main import run

QWEN = ("--model", "Qwen/Qwen3-8B", "--tp", "8")


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `planlang show` and returns its exit code, its output and what it complains about."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["show", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def of_json(show: Any, *arguments: str) -> dict[str, Any]:
    code, out, err = show(*arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_collectives(show: Any) -> None:
    code, out, err = show("qwen_sequence", *QWEN, "--comm", "--batch", "2", "--length", "1024")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "qwen_sequence on Qwen/Qwen3-8B (Qwen3ForCausalLM), mesh tp=8"
    assert lines[1] == "collectives over `tp`, 8 ranks, at batch 2, length 1024, bfloat16"
    # 2 * 128 * 4096 numbers of 2 bytes, sent to 7 others, in 36 layers
    gathered = "model.layers.*.mlp all_gather shard(1) -> replicate [2, 128, 4096] 2.00 MiB 14.0 MiB 36 504 MiB"
    assert lines.count(gathered) == 1
    assert "together reduce_scatter 73 1022 MiB" in lines


def test_collectives_as_json(show: Any) -> None:
    comm = of_json(show, "qwen_stable", *QWEN, "--comm", "--length", "16", "--dtype", "float32")["comm"]
    axis = comm["axes"][0]
    assert (comm["batch"], comm["length"], comm["dtype"]) == (1, 16, "float32")
    assert (axis["axis"], axis["ranks"], axis["complete"]) == ("tp", 8, True)
    lookup = axis["collectives"][0]
    assert lookup == {
        "phase": "forward",
        "module": "model.embed_tokens",
        "kind": "all_reduce",
        "axis": "tp",
        "from": "partial",
        "to": "replicate",
        "shape": [1, 16, 4096],
        "count": 1,
        "payload_bytes": 16 * 4096 * 4,
        "ring_bytes": 2 * 7 * 16 * 4096 * 4 // 8,
        "exact": True,
        "tree": False,
        "certain": True,
        "line": 7,
    }
    assert {kind: sums["count"] for kind, sums in axis["totals"]["backward"].items()} == {
        "all_reduce": 181,
        "reduce_scatter": 72,
    }


def test_totals_are_sums(show: Any) -> None:
    axis = of_json(show, "qwen", *QWEN, "--comm")["comm"]["axes"][0]
    for phase, kinds in axis["totals"].items():
        for kind, sums in kinds.items():
            entries = [each for each in axis["collectives"] if (each["phase"], each["kind"]) == (phase, kind)]
            assert sums["count"] == sum(each["count"] for each in entries)
            assert sums["payload_bytes"] == sum(each["count"] * each["payload_bytes"] for each in entries)
            assert sums["ring_bytes"] == sum(each["count"] * each["ring_bytes"] for each in entries)


def test_reductions(show: Any) -> None:
    assert of_json(show, "qwen_stable", *QWEN, "--reductions")["reductions"]["grade"] == "forward-invariant"
    out = show("qwen_stable", *QWEN, "--reductions")[1]
    assert "forward-invariant: floating-point sums cross ranks in the backward pass alone" in out
    assert "order does not matter: one number is added to zeros" in out


def test_a_grade_that_kernels_cost_speaks_of_no_sums(show: Any, tmp_path: Path) -> None:
    plan = tmp_path / "mine.plan"
    plan.write_text('plan mine for Qwen3ForCausalLM\nextends "qwen_invariant"\ndrop *.mlp.act_fn\n')
    assert of_json(show, str(plan), *QWEN, "--reductions")["reductions"]["grade"] == "forward-invariant"
    out = show(str(plan), *QWEN, "--reductions")[1]
    assert "forward-invariant: no floating-point sum crosses ranks in an order that depends on how many" in out
    assert "PLN8004" in out
    assert "in the backward pass alone" not in out


def test_memory(show: Any) -> None:
    found = of_json(show, "qwen", *QWEN, "--memory")["memory"]
    assert found["single_device"]["numbers"] == 8_190_735_360
    assert found["largest_rank"]["adamw"] == 8 * found["largest_rank"]["numbers"]
    out = show("qwen", *QWEN, "--memory")[1]
    assert "a rank" in out
    assert "whole on every rank: 0.004% of the parameters, 308,224 numbers" in out


def test_memory_of_uneven_parts(show: Any) -> None:
    """3 ranks do not divide the vocabulary; the heads they do not divide either, which is an error of the plan."""
    _, out, _ = show("qwen", "--model", "Qwen/Qwen3-8B", "--tp", "3", "--memory")
    assert "largest rank" in out
    assert "smallest rank" in out


def test_without_a_question_nothing_changes(show: Any) -> None:
    assert set(of_json(show, "qwen", *QWEN)) & {"comm", "reductions", "memory"} == set()


def test_one_rank(show: Any) -> None:
    code, out, _ = show("qwen", "--model", "Qwen/Qwen3-8B", "--tp", "1", "--comm", "--reductions")
    assert code == 0
    assert "forward: none\nbackward: none\n" in out
    assert "no grade: on one rank nothing crosses" in out


def test_a_wrong_plan_is_marked(show: Any, tmp_path: Path) -> None:
    """Partial sums that nobody adds up."""
    plan = tmp_path / "wrong.plan"
    plan.write_text("plan wrong for Qwen3ForCausalLM\nmesh tp\n*.mlp.down_proj: rowwise(in=replicate, out=partial)\n")
    _, out, _ = show(str(plan), *QWEN, "--comm", "--reductions")
    assert out.count("the plan is not right, as `planlang check` says") == 2
    assert "invariant" not in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("qwen", "--comm"), "are about a model: give --model"),
        (("qwen", "--model", "Qwen/Qwen3-8B", "--memory"), "how many ranks the mesh axis `tp` has: give --tp"),
        (("qwen", *QWEN, "--comm", "--batch", "0"), "0 is not in the range"),
        (("qwen", *QWEN, "--comm", "--dtype", "int8"), "'int8' is not one of"),
    ],
)
def test_what_cannot_be_answered(show: Any, arguments: tuple[str, ...], complaint: str) -> None:
    code, _, err = show(*arguments)
    assert code == 2
    assert complaint in " ".join(err.split())


def test_sizes_that_were_not_captured(show: Any) -> None:
    """The gated delta nets of Qwen3-Next work in chunks of 64 tokens."""
    code, _, err = show("qwen", "--model", "Qwen/Qwen3-Next-80B-A3B-Instruct", "--tp", "2", "--comm")
    assert code == 2
    assert "give another --batch or --length" in err


def test_no_torch_is_imported() -> None:
    code = (
        "import sys; from planlang.cli.main import run; code = run(sys.argv[1:]); "
        "assert not {'torch', 'transformers'} & sys.modules.keys(); sys.exit(code)"
    )
    asked = ("show", "qwen", *QWEN, "--comm", "--reductions", "--memory")
    done = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
