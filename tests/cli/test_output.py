"""Where `planlang compile` writes: never over what it reads or over a plan, and by the suffix of the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planlang.cli.main import run

PLAN = 'plan mine for Qwen3ForCausalLM\nextends "base.plan"\n*.mlp.up_proj: colwise\n'
BASE = "plan base for Qwen3ForCausalLM\nmodel.embed_tokens: rowwise(in=replicate)\nlm_head: colwise(local=false)\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.plan").write_text(PLAN)
    Path("base.plan").write_text(BASE)
    return tmp_path


def codes(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = run([*arguments, "--format", "json"])
    return code, [finding["code"] for finding in json.loads(capsys.readouterr().err)["findings"]]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


def test_no_input_is_written_over(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    Path("folder").mkdir()
    Path("folder/link.py").symlink_to("../mine.plan")
    Path("link.py").symlink_to("base.plan")
    os.link("base.plan", "hard.yaml")
    Path("to_nothing.py").symlink_to("new.plan")
    before = names(here)
    for output in (
        "mine.plan", f"./../{here.name}/mine.plan", "base.plan", "folder/link.py", "link.py", "hard.yaml",
        str(here / "mine.plan"), "other.plan", "OTHER.PLAN", "to_nothing.py",
    ):  # fmt: skip
        assert codes(capsys, "compile", "mine.plan", "-o", output) == (2, ["PLN0006"]), output
    assert (Path("mine.plan").read_text(), Path("base.plan").read_text()) == (PLAN, BASE)
    assert names(here) == before


def test_data_modules_and_configurations_are_inputs_too(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["compile", "mine.plan", "-o", "mine.yaml"]) == 0
    assert codes(capsys, "compile", "mine.yaml", "-o", "./mine.yaml") == (2, ["PLN0006"])
    monkeypatch.syspath_prepend(here)
    assert run(["compile", "mine.plan", "-o", "their_module.py"]) == 0
    dotted = ("compile", "their_module.PLAN", "--model", "Qwen/Qwen3-0.6B")
    assert codes(capsys, *dotted, "-o", "their_module.py") == (2, ["PLN0006"])
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 2}
    Path("model").mkdir()
    Path("model/config.json").write_text(json.dumps(config))
    for model in ("model", "model/config.json"):
        found = codes(capsys, "compile", "mine.plan", "--model", model, "-o", "model/config.json")
        assert found == (2, ["PLN0006"])
    assert json.loads(Path("model/config.json").read_text()) == config


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    before = names(here)
    assert run(["compile", "mine.plan"]) == 0
    printed = capsys.readouterr().out
    assert run(["compile", "mine.plan", "-o", "-"]) == 0
    assert capsys.readouterr().out == printed
    assert names(here) == before


def test_a_name_with_a_slash_behind_it_is_a_folder(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    assert codes(capsys, "compile", "mine.plan", "-o", "plans/") == (2, ["PLN0006"])
    assert not (here / "plans").exists()


@pytest.mark.parametrize(("name", "begins"), [("a.py", '"""'), ("a.yaml", "schema:"), ("a.yml", "schema:"),
                                              ("a.json", "{"), ("a.txt", '"""')])  # fmt: skip
def test_the_suffix_says_which_target(name: str, begins: str) -> None:
    assert run(["compile", "mine.plan", "-o", name]) == 0
    assert Path(name).read_text().startswith(begins)


def test_a_target_that_does_not_fit_the_suffix_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", "mine.plan", "-o", "a.yaml", "-t", "python"]) == 2
    assert "-t python does not fit -o a.yaml" in capsys.readouterr().err
    assert not Path("a.yaml").exists()
    assert run(["compile", "mine.plan", "-o", "a.yaml", "-t", "yaml"]) == 0
    assert run(["compile", "mine.plan", "-o", "a.txt", "-t", "json"]) == 0


@pytest.mark.parametrize("name", ["my-plan.py", "1st.py", "class.py", "torch.py"])
def test_a_module_that_cannot_be_imported_is_a_warning(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert codes(capsys, "compile", "mine.plan", "-o", name) == (0, ["PLN7006"])
    assert Path(name).exists()
    assert codes(capsys, "compile", "mine.plan", "-o", Path(name).stem + ".yaml") == (0, [])
