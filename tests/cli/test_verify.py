"""`planlang verify`: what it proves, and how it says what fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import planlang
from planlang.cli.main import run
from planlang.runtime.verify.cases import cases
from planlang.runtime.verify.smallest import smallest

RULES = """\
model.embed_tokens:        rowwise(in=replicate)
*.self_attn.{q,k,v}_proj:  colwise
*.self_attn.{q,k}_norm:    sequence(dim=2, local=true)
*.self_attn.o_proj:        rowwise
*.mlp.{gate,up}_proj:      colwise
*.mlp.down_proj:           rowwise
lm_head:                   colwise(local=false)
"""
QWEN3 = "Qwen/Qwen3-8B"


@pytest.fixture
def two_circumstances(monkeypatch: pytest.MonkeyPatch) -> None:
    """How a failure is looked into needs no more."""
    monkeypatch.setattr("planlang.runtime.verify.cases.cases", lambda ranks: (cases(ranks)[0], cases(ranks)[2]))


def plan(rules: str = RULES) -> planlang.Plan:
    return planlang.loads(f"plan mine for Qwen3ForCausalLM\n\n{rules}")


def only(found: planlang.Verified) -> planlang.Finding:
    (finding,) = [each for each in found.findings if each.severity == "error"]
    return finding


def test_a_right_plan_is_right_in_all_circumstances() -> None:
    found = planlang.verify(plan(), QWEN3, tp=[2, 3])
    assert not found.ok  # 3 ranks do not divide the heads, which the compiler says
    assert [result.ranks for result in found.results] == [2] * len(cases(2))
    assert all(result.right for result in found.results)
    found = planlang.verify(plan(), QWEN3, tp=2)
    assert found.ok
    assert "1 of 36 layers" in found.twin


@pytest.mark.usefixtures("two_circumstances")
def test_wrong_gradients_are_named_with_what_check_says() -> None:
    rules = RULES.replace("*.self_attn.{q,k}_norm:    sequence(dim=2, local=true)\n", "")
    finding = only(planlang.verify(plan(rules), QWEN3, tp=2))
    assert finding.code.number == "PLN5007"
    assert "q_norm.weight" in finding.message
    assert "k_norm.weight" in finding.message
    notes = "\n".join(finding.notes)
    assert "each rank has only its own part of it: the sum over the ranks is right" in notes
    assert (
        "walking back from the loss, that of `model.layers.0.self_attn.k_norm.weight` is the first wrong one" in notes
    )
    assert "`planlang check` finds it too: PLN5004 at line 4" in notes
    assert "sequence(dim=2, local=true)" in finding.help


@pytest.mark.usefixtures("two_circumstances")
def test_a_gradient_that_is_summed_once_too_often_has_its_ratio() -> None:
    finding = only(planlang.verify(plan(f"{RULES}model.norm: sequence(local=true)\n"), QWEN3, tp=4))
    assert "`model.norm.weight`" in finding.message
    assert "4 times too large" in finding.message
    assert finding.place is not None
    assert finding.place.text.startswith("model.norm")
    assert "it fails so with nothing but `model.norm` at line 10" in finding.notes


STYLES = '''
"""Styles with mistakes that no style of the language makes."""
from torch.distributed.tensor.parallel import ParallelStyle

class Doubled(ParallelStyle):
    """The gradient of the output comes back twice."""
    def _apply(self, module, mesh):
        module.register_forward_hook(lambda _, args, output: output.register_hook(lambda found: 2 * found) and None)
        return module

class Biased(ParallelStyle):
    """The bias is added on every rank, before a sum."""
    def _apply(self, module, mesh):
        module.register_forward_hook(lambda module, args, output: output + (mesh.size() - 1) * module.bias)
        return module
'''


@pytest.fixture
def styles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Custom styles of the module `mistaken_styles`."""
    (tmp_path / "mistaken_styles.py").write_text(STYLES)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("two_circumstances", "styles")
def test_the_gradient_of_an_activation_that_is_the_first_wrong_one_is_named() -> None:
    rules = RULES.replace("lm_head:", '*.post_attention_layernorm: custom "mistaken_styles:Doubled"\nlm_head:')
    finding = only(planlang.verify(plan(rules), QWEN3, tp=2))
    assert finding.code.number == "PLN5007"
    (note,) = [note for note in finding.notes if note.startswith("walking back")]
    assert (
        "that of the output of `model.layers.0.post_attention_layernorm`, which enters `model.layers.0.mlp.gate_proj`"
        in note
    )
    assert note.endswith("it is 2 times too large")


@pytest.mark.usefixtures("two_circumstances", "styles")
def test_a_bias_that_is_added_too_often_is_counted() -> None:
    rules = '*.self_attn.q_proj: custom "mistaken_styles:Biased"\n'
    text = f"plan mine for Qwen2ForCausalLM\n\n{rules}"
    finding = only(planlang.verify(planlang.loads(text), "Qwen/Qwen2.5-0.5B", tp=2))
    assert finding.code.number == "PLN4022"
    assert "`model.layers.0.self_attn.q_proj`" in finding.message
    assert "its bias is in it 2 times" in finding.notes
    assert any(
        note.startswith("`planlang check` leaves a part of the plan unchecked: PLN4014") for note in finding.notes
    )
    assert not any("please report it" in note for note in finding.notes)
    assert "`planlang check` follows" not in finding.help


@pytest.mark.usefixtures("two_circumstances")
def test_wrong_logits_are_followed_to_the_first_module() -> None:
    finding = only(
        planlang.verify(
            plan(RULES.replace("down_proj:           rowwise", "down_proj: rowwise(out=partial)")), QWEN3, tp=2
        )
    )
    assert finding.code.number == "PLN4022"
    assert "`model.layers.0.mlp.down_proj`" in finding.message
    assert finding.place is not None
    assert "down_proj" in finding.place.text


@pytest.mark.usefixtures("two_circumstances")
def test_what_raises_has_module_rule_and_message() -> None:
    wrong = RULES.replace("o_proj:        rowwise", "o_proj: rowwise(local=false)")
    finding = only(planlang.verify(plan(wrong), QWEN3, tp=2))
    assert finding.code.number == "PLN4021"
    assert "mixed torch.Tensor and DTensor" in finding.message
    (few,) = [note for note in finding.notes if note.startswith("it fails so with nothing but")]
    assert "o_proj" in few
    assert "mlp" not in few


@pytest.mark.usefixtures("two_circumstances")
def test_layers_whose_rules_differ_are_run_both() -> None:
    found = planlang.verify(plan("model.layers.{5..9}.mlp.up_proj: colwise(out=replicate)\n"), QWEN3, tp=2)
    assert found.ok
    assert "2 of 36 layers" in found.twin
    wrong = planlang.verify(plan("model.layers.7.mlp.up_proj: colwise\n"), QWEN3, tp=2)
    assert "`model.layers.7.mlp" in only(wrong).message


@pytest.mark.parametrize(("name", "model"), [("qwen", "Qwen/Qwen2.5-0.5B"), ("qwen_sequence", "Qwen/Qwen3-0.6B")])
@pytest.mark.usefixtures("two_circumstances")
def test_bundled_plans_are_right(name: str, model: str) -> None:
    assert planlang.verify(planlang.load(name), model, tp=2).ok


def test_formats_are_those_of_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.plan"
    path.write_text(f"plan a for Qwen3ForCausalLM\n\n{RULES}")
    command = ["verify", str(path), "--model", QWEN3, "--tp", "2", "--format"]
    assert run([*command, "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["version"], data["errors"], data["findings"]) == (1, 0, [])
    assert data["ok"]
    assert {each["circumstances"] for each in data["runs"]} == {each.name for each in cases(2)}
    assert run([*command, "sarif"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []


@pytest.mark.usefixtures("two_circumstances")
def test_formats_of_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.plan"
    path.write_text(f"plan a for Qwen3ForCausalLM\n\n{RULES}model.norm: sequence(local=true)\n")
    command = ["verify", str(path), "--model", QWEN3, "--tp", "2", "--format"]
    assert run([*command, "json"]) == 1
    said = capsys.readouterr()
    data = json.loads(said.out)
    assert said.err == ""
    assert [each["code"] for each in data["findings"]] == ["PLN5007"]
    assert data["errors"] == 1
    assert [each["verdict"] for each in data["runs"]] == ["gradient", "gradient"]
    assert run([*command, "concise"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "PLN5007" in lines[0]
    assert lines[1] == "Qwen/Qwen3-8B: 0 of 2 runs are right"


@pytest.mark.usefixtures("two_circumstances")
def test_what_runs_is_shown_on_a_terminal_and_makes_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert run(["verify", "qwen", "--model", QWEN3, "--tp", "2"]) == 0
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert lines == ["", "1 of 2: tp=2, training", "2 of 2: tp=2, length 1", ""]
    assert run(["verify", "qwen", "--model", QWEN3, "--tp", "2", "--format", "json"]) == 0
    assert capsys.readouterr().err == ""


def test_what_cannot_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "qwen"]) == 2
    assert "--model" in capsys.readouterr().err
    assert run(["verify", "qwen", "--model", QWEN3, "--limit", "5"]) == 2
    assert "--processes" in capsys.readouterr().err
    assert run(["verify", "qwen", "--model", "Qwen/Qwen9"]) == 2
    path = tmp_path / "a.plan"
    path.write_text("plan a for Qwen3ForCausalLM\n\n*.mlp.up_prj: colwise\n")
    assert run(["verify", str(path), "--model", QWEN3]) == 1


def test_the_smallest_part_that_fails() -> None:
    def fails(some: Sequence[int]) -> bool:
        calls.append(tuple(some))
        return {2, 5} <= set(some) and 7 not in some

    calls: list[tuple[int, ...]] = []
    assert smallest([1, 2, 3, 4, 5, 6], fails) == (2, 5)
    assert len(calls) < 20
    assert smallest([4], lambda some: True) == (4,)
