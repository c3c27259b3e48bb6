"""Resolved plans as data: everything in a file is used or refused, and no file keeps the reader busy."""

from __future__ import annotations

from pathlib import Path

import pytest

import planlang
from planlang.cli.main import run

GOOD = planlang.compile("qwen_stable", target="yaml")


def loaded(text: str, tmp_path: Path, suffix: str = ".yaml") -> planlang.Plan:
    path = tmp_path / f"plan{suffix}"
    path.write_text(text, encoding="utf-8")
    return planlang.load(path)


def refusal(text: str, tmp_path: Path, suffix: str = ".yaml") -> str:
    with pytest.raises(planlang.PlanError) as caught:
        loaded(text, tmp_path, suffix)
    return "\n".join(map(str, caught.value.findings))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert loaded(GOOD, tmp_path).styles("Qwen/Qwen3-0.6B", tp=2)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("in: replicate", "in: replicate, local=false", "not one value"),
        ("out: shard(-1)", "out: shard(-1))(", "does not fit here"),
        ("name: colwise", "name: colwise(local=false)", "stand beside it"),
        ("    local: false", "    locl: false", "locl"),
        ("options: {}", "options: {}\nextra: 1", "extra"),
        ("- axis: tp", "- axis: tp\n  size: 2\n- axis: tp", "tp"),
        ("- axis: tp", "- axis: 'a b'", "a b"),
        ("- rule: lm_head?", "- rule: 'lm_head?: colwise'", "lm_head"),
        ("name: qwen_stable", "name: qwen_stable\nname: other", "name"),
    ],
)
def test_what_would_be_dropped_or_smuggled_in_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    assert said in refusal(GOOD.replace(old, new, 1), tmp_path)


@pytest.mark.parametrize(
    "text", ["a: !!timestamp foo", "a: !!int x", "a: !!python/object:os.system {}", "a: !!binary '='", "? {a: 1}\n: b"]
)
def test_tags_of_yaml_are_findings(tmp_path: Path, text: str) -> None:
    assert refusal(text, tmp_path)


@pytest.mark.timeout(20)
def test_aliases_and_nesting_keep_nobody_busy(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 14)]
    assert refusal("\n".join(rows), tmp_path)
    assert refusal("[" * 100_000, tmp_path)
    assert refusal("[" * 100_000, tmp_path, ".json")
    assert refusal('{"a": ' + "9" * 5000 + "}", tmp_path, ".json")


def test_the_axes_of_data_are_held_against_the_rules(tmp_path: Path) -> None:
    assert "`mesh` has `dp`" in refusal(GOOD.replace("- axis: tp", "- axis: dp", 1), tmp_path)


def test_options_of_data_cannot_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert run(["compile", str(path), "-D", "gather_head=true"]) == 1
    assert "gather_head" in capsys.readouterr().err
