"""`planlang fmt`: what it says of files that it would change, to people and to programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planlang.cli.main import run

DONE = "plan a for Qwen3ForCausalLM\n\nlm_head:    colwise\n"
ROUGH = "plan a for Qwen3ForCausalLM\n\nlm_head : colwise\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("done.plan").write_text(DONE)
    assert run(["fmt", "done.plan"]) == 0
    Path("rough.plan").write_text(ROUGH)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run(["fmt", *arguments])
    return code, capsys.readouterr().err


def test_check_says_it_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    files = ("--check", "done.plan", "rough.plan", "--format")
    assert said(capsys, *files, "full") == (1, "would format rough.plan\n")
    assert said(capsys, *files, "concise") == (1, "rough.plan:3:1: PLN1010 `rough.plan` is not formatted\n")
    code, text = said(capsys, *files, "github")
    assert code == 1
    assert text.startswith("::error file=rough.plan,line=3,col=1,endLine=3,endColumn=18,title=PLN1010 unformatted::")
    code, text = said(capsys, *files, "json")
    (finding,) = json.loads(text)["findings"]
    assert (code, finding["code"], finding["file"], finding["start"]["line"]) == (1, "PLN1010", "rough.plan", 3)
    code, text = said(capsys, *files, "sarif")
    (result,) = json.loads(text)["runs"][0]["results"]
    assert (code, result["ruleId"]) == (1, "PLN1010")
    assert Path("rough.plan").read_text() == ROUGH


@pytest.mark.parametrize("style", ["full", "concise", "github", "json", "sarif"])
def test_check_says_nothing_of_what_is_formatted(capsys: pytest.CaptureFixture[str], style: str) -> None:
    code, text = said(capsys, "--check", "done.plan", "--format", style)
    assert code == 0
    assert "PLN" not in text
    assert "done.plan" not in text


def test_the_place_is_inside_the_text_wherever_it_differs(capsys: pytest.CaptureFixture[str]) -> None:
    for text, line in ((DONE + "\n\n", 3), ("\n\n" + DONE, 1), (DONE.rstrip(), 3)):
        Path("odd.plan").write_text(text)
        _, err = said(capsys, "--check", "odd.plan", "--format", "json")
        start = json.loads(err)["findings"][0]["start"]["line"]
        assert line <= start <= text.count("\n") + 1


def test_files_are_counted_as_people_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "done.plan") == (0, "0 files formatted, 1 file left as it was\n")
    assert said(capsys, ".") == (0, "1 file formatted, 1 file left as it was\n")
    assert said(capsys, ".") == (0, "0 files formatted, 2 files left as they were\n")


@pytest.mark.parametrize("name", ["o.yaml", "o.yml", "o.json", "o.py"])
def test_what_is_no_plan_is_one_finding(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["compile", "done.plan", "-o", name]) == 0
    before = Path(name).read_bytes()
    code, text = said(capsys, name, "--format", "json")
    assert (code, [finding["code"] for finding in json.loads(text)["findings"]]) == (2, ["PLN0013"])
    assert Path(name).read_bytes() == before


def test_a_file_that_cannot_be_written_is_not_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("rough.plan").chmod(0o400)
    Path("bad.plan").write_text("plan a for Qwen3ForCausalLM\nlm_head colwise\n")
    code, text = said(capsys, "done.plan", "rough.plan", "bad.plan", "missing.plan")
    assert code == 2
    assert text.endswith("0 files formatted, 1 file left as it was, 3 files could not be\n")
    assert Path("rough.plan").read_text() == ROUGH


def test_a_folder_with_odd_names(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder.plan").mkdir()
    Path("folder.plan/in.plan").write_text(DONE.replace(":    ", ":  "))
    assert said(capsys, ".")[0] == 0
    code, text = said(capsys, "x" * 5000 + ".plan", "a\x1b[31m\n.plan", "--format", "concise")
    assert code == 2
    assert "\x1b" not in text
    assert r"a\x1b[31m\n.plan" in text
    Path("odd\x1b[31m.plan").write_text(ROUGH)
    for flag in ("--check", "--diff"):
        assert said(capsys, flag, "odd\x1b[31m.plan")[0] == 1
        assert "\x1b" not in "".join(capsys.readouterr())
