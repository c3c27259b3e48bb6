"""`planlang check` as a command: several sizes, `--fix` and `--diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planlang.cli.main import run

RULES = """\
model.embed_tokens:        rowwise(in=replicate)
*.self_attn.{q,k,v}_proj:  colwise
*.self_attn.o_proj:        rowwise
*.mlp.{gate,up}_proj:      colwise
*.mlp.down_proj:           rowwise
lm_head:                   colwise(local=false)
"""
FORGOTTEN = f"plan mine for Qwen3ForCausalLM\n\n{RULES}"
NORMS = "*.self_attn.{q,k}_norm: sequence(dim=2, local=true)"
QWEN3 = ("--model", "Qwen/Qwen3-0.6B", "--color", "never")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.plan"


def test_fix_writes_what_cures_the_plan(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN)
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 0
    assert plan.read_text() == FORGOTTEN.replace("*.self_attn.o_proj", f"{NORMS}\n*.self_attn.o_proj")
    captured = capsys.readouterr()
    assert "right, forward and backward" in captured.out
    assert "1 fix written to mine.plan" in captured.err


def test_diff_shows_the_fix_and_writes_nothing(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN)
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--diff"]) == 1
    assert plan.read_text() == FORGOTTEN
    captured = capsys.readouterr()
    added = [line for line in captured.out.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == [f"+{NORMS}"]
    assert "PLN5004" in captured.err


def test_a_second_fix_changes_nothing(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN)
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 0
    fixed = plan.read_text()
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 0
    assert plan.read_text() == fixed
    assert "no fix is known" not in capsys.readouterr().err.split("written")[0]


def test_several_mistakes_are_fixed_one_after_the_other(plan: Path) -> None:
    wrong = FORGOTTEN.replace("*.mlp.down_proj:           rowwise", "*.mlp.down_proj:           rowwise(out=shard(1))")
    wrong = wrong.replace("*.mlp.{gate,up}_proj:", "*.mlp.gate_proj:     ")
    plan.write_text(wrong)
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 0
    text = plan.read_text()
    assert "*.mlp.down_proj:           rowwise\n" in text
    assert "*.mlp.up_proj: colwise\n" in text
    assert NORMS in text


def test_a_formatted_plan_stays_formatted(plan: Path) -> None:
    plan.write_text(FORGOTTEN.replace("rowwise\n", "rowwise  # a comment\n", 1))
    assert run(["fmt", "mine.plan"]) == 0
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 0
    assert run(["fmt", "--check", "mine.plan"]) == 0
    assert "# a comment" in plan.read_text()


def test_an_inherited_rule_is_replaced_in_the_plan_itself(plan: Path) -> None:
    base = plan.with_name("base.plan")
    wrong = FORGOTTEN.replace("plan mine", "plan base").replace(
        "rowwise\n*.mlp.{", f"rowwise(out=shard(1))\n{NORMS}\n*.mlp.{{"
    )
    base.write_text(wrong)
    plan.write_text('plan mine for Qwen3ForCausalLM\n\nextends "base.plan"')
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 0
    assert base.read_text() == wrong
    assert plan.read_text().splitlines()[-1] == "*.self_attn.o_proj: rowwise"


@pytest.mark.parametrize(
    ("base", "mistake", "cure"),
    [
        ("qwen", "*.self_attn.k_proj:    skip\n", "*.self_attn.k_proj:    colwise\n"),
        ("qwen_sequence", "drop model.norm\n", "drop model.norm\n\nmodel.norm:    sequence\n"),
        ("qwen_sequence", "lm_head:    colwise(local=false)\n", "lm_head:    colwise(in=shard(1), local=false)\n"),
    ],
)
def test_a_mistake_in_an_extending_plan_is_cured_where_it_is(plan: Path, base: str, mistake: str, cure: str) -> None:
    head = f'plan mine for Qwen3ForCausalLM\n\nextends "{base}"\n\n'
    plan.write_text(head + mistake)
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 0
    assert "".join(plan.read_text().split()) == "".join((head + cure).split())


def test_a_rule_inside_a_condition_is_changed_there(plan: Path) -> None:
    inside = FORGOTTEN.replace(
        "*.self_attn.o_proj:        rowwise",
        f"{NORMS}\nwhen tp > 1 {{\n    *.self_attn.o_proj: rowwise(out=partial)\n}}",
    )
    plan.write_text(inside)
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 0
    assert plan.read_text() == inside.replace("rowwise(out=partial)", "rowwise")


def test_a_new_rule_is_optional_where_another_class_lacks_the_module(plan: Path) -> None:
    plan.write_text(FORGOTTEN.replace("for Qwen3", "for Qwen2ForCausalLM, Qwen3"))
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 0
    assert NORMS.replace(":", "?:", 1) in plan.read_text()
    assert run(["check", "mine.plan", "--model", "Qwen/Qwen2.5-7B", "--tp", "2"]) == 0


def test_a_rule_that_should_not_be_there_becomes_harmless(plan: Path) -> None:
    plan.write_text(f"{FORGOTTEN}{NORMS}\nmodel.norm: sequence(local=true)\n")
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 0
    assert "model.norm: replicate(grad=none)\n" in plan.read_text()


@pytest.mark.parametrize("reference", ["qwen_stable", "mine.yaml"])
def test_what_is_not_the_users_own_text_is_left_alone(
    plan: Path, reference: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.write_text(FORGOTTEN)
    assert run(["compile", "mine.plan", "-o", "mine.yaml"]) == 0
    before = plan.with_suffix(".yaml").read_text()
    assert run(["check", reference, *QWEN3, "--fix"]) == 2
    assert plan.with_suffix(".yaml").read_text() == before
    assert "as it is" in capsys.readouterr().out


def test_no_fix_is_written_to_a_plan_with_mistakes_in_its_text(plan: Path) -> None:
    plan.write_text(FORGOTTEN + "*.mlp.act_fn: colwis\n")
    before = plan.read_text()
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 1
    assert plan.read_text() == before


def test_several_numbers_of_ranks(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN + NORMS + "\n")
    assert run(["check", "mine.plan", *QWEN3, "--tp", "2,4,8"]) == 0
    out = capsys.readouterr().out
    assert [f"tp={ranks}: 8 passes checked, right" in out for ranks in (2, 4, 8)] == [True] * 3
    assert run(["check", "mine.plan", *QWEN3, "--tp", "2,16"]) == 1
    out = capsys.readouterr().out
    assert "tp=2: 8 passes checked, right" in out
    assert "tp=16: no pass checked, see the findings" in out


def test_a_finding_of_some_numbers_of_ranks_says_which(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN + NORMS + "\nmodel.norm: sequence(local=true)\n")
    assert run(["check", "mine.plan", *QWEN3, "--tp", "1,4"]) == 1
    assert "with tp=4" in capsys.readouterr().out


@pytest.mark.parametrize("ranks", ["0", "2,x", ",", "2,,4", "-1"])
def test_numbers_of_ranks_that_are_none(plan: Path, ranks: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN)
    assert run(["check", "mine.plan", f"--tp={ranks}"]) == 2
    assert "--tp" in capsys.readouterr().err


def test_findings_are_the_output(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN)
    assert run(["check", "mine.plan", *QWEN3, "--format", "json"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "PLN5004" in json.dumps(json.loads(captured.out))


def test_two_mistakes_of_one_kind_are_both_fixed(plan: Path) -> None:
    wrong = FORGOTTEN.replace("rowwise\n", "rowwise(out=partial)\n")
    assert wrong.count("partial") == 2
    plan.write_text(wrong)
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 0
    assert "partial" not in plan.read_text()


def test_a_fix_that_would_lose_a_comment_is_not_written(plan: Path) -> None:
    inner = FORGOTTEN.replace("o_proj:        rowwise", "o_proj:        rowwise(\n    out=partial,  # why\n)")
    plan.write_text(f"{inner}{NORMS}\n")
    assert run(["check", "mine.plan", *QWEN3, "--tp", "4", "--fix"]) == 1
    assert plan.read_text() == f"{inner}{NORMS}\n"


def test_line_ends_links_and_modes_are_kept(plan: Path) -> None:
    plan.write_bytes(FORGOTTEN.replace("\n", "\r\n").encode())
    plan.chmod(0o640)
    link = plan.with_name("link.plan")
    link.symlink_to(plan)
    assert run(["check", "link.plan", *QWEN3, "--fix"]) == 0
    assert link.is_symlink()
    assert plan.stat().st_mode & 0o777 == 0o640
    fixed = plan.read_bytes()
    assert fixed.count(b"\n") == fixed.count(b"\r\n") == FORGOTTEN.count("\n") + 1


def test_a_plan_that_cannot_be_written_is_said_to_be_so(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(FORGOTTEN)
    plan.chmod(0o444)
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 2
    assert plan.read_text() == FORGOTTEN
    assert "PLN0006" in capsys.readouterr().out


def test_a_rule_is_written_in_place_of_a_skip(plan: Path) -> None:
    plan.write_text(f"{FORGOTTEN}{NORMS}\noverride *.self_attn.{{k,v}}_proj: skip\n")
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 0
    assert "override *.self_attn.{k,v}_proj: colwise\n" in plan.read_text()


def test_no_fix_makes_a_plan_that_does_not_compile(plan: Path) -> None:
    """The skip is for more modules than the rule that is missing, and a rule beside it would be one too many."""
    skipped = f"{FORGOTTEN}{NORMS}\noverride *.{{self_attn.v_proj,mlp.act_fn}}: skip\n"
    plan.write_text(skipped)
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 1
    assert plan.read_text() == skipped


def test_what_was_changed_meanwhile_is_not_written_over(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from planlang import fix

    real = fix.fix

    def slow(*args: object) -> object:
        plan.write_text(FORGOTTEN + "# mine\n")
        return real(*args)  # type: ignore[arg-type]

    plan.write_text(FORGOTTEN)
    monkeypatch.setattr(fix, "fix", slow)
    assert run(["check", "mine.plan", *QWEN3, "--fix"]) == 2
    assert plan.read_text() == FORGOTTEN + "# mine\n"
    assert "changed while it was checked" in capsys.readouterr().out


def test_a_class_needs_a_model(plan: Path) -> None:
    plan.write_text(FORGOTTEN)
    assert run(["check", "mine.plan", "--as", "Nonsense"]) == 2
