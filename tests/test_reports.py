"""The table of reports in `corpus/reports/README.md` against the cases that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import planlang
from planlang.checker import check
from tests.cases import CORPUS, cases
from tests.simulate import twins

REPORTS = CORPUS / "reports"
_ROW = re.compile(r"^\| (?!report |---)(.+?) \| (.+) \|$", re.MULTILINE)
# Every report that is of a plan which is right must have a case that passes.
MUST_PASS = {
    "jundot/omlx#2954": "right_one_kv_head_gathered",
    "tenstorrent/tt-xla#5849": "right_latent_attention",
    "NVIDIA-NeMo/RL#879": "right_tied_pair_cut_along_hidden",
    "pytorch/pytorch#113761": "right_one_rank",
    "NVIDIA-NeMo/Automodel#481": "right_one_rank_hybrid",
    "own runs: uneven sizes between DTensors": "right_odd_width_dtensors",
    "own runs: rows with a bias": "right_biases_everywhere",
}


def table() -> dict[str, str]:
    return dict(_ROW.findall((REPORTS / "README.md").read_text(encoding="utf-8")))


def test_the_table_names_every_case_at_its_report() -> None:
    named = {
        report: set(re.findall(r"`(\w+)`", said)) for report, said in table().items() if not said.startswith("none")
    }
    found: dict[str, set[str]] = {}
    for case in cases(REPORTS):
        for report in case.settings["report"]:
            found.setdefault(report, set()).add(case.name)
    assert named == found


def test_a_report_without_a_case_has_a_reason() -> None:
    left = {report: said for report, said in table().items() if said.startswith("none")}
    assert all(len(said) > len("none: ") for said in left.values())
    assert len(table()) - len(left) >= 60


def test_what_must_pass_passes() -> None:
    by_name = {case.name: case for case in cases(REPORTS)}
    for report, name in MUST_PASS.items():
        assert report in by_name[name].settings["report"]
        assert by_name[name].one("expect") == "none"


@pytest.mark.usefixtures("graph_cache")
def test_one_module_under_two_names_passes(tmp_path: Path) -> None:
    model = twins.make("llama")
    mlp = model.get_submodule("model.layers.0.mlp")
    mlp.add_module("again", mlp.get_submodule("up_proj"))
    plan = tmp_path / "shared.plan"
    plan.write_text(
        "plan shared for LlamaForCausalLM\n\n*.mlp.{gate_proj,up_proj,again}: colwise\n*.mlp.down_proj: rowwise\n"
    )
    (report,) = check(planlang.load(plan), model, tp=2)
    assert report.proved
