"""What `-h` prints."""

from __future__ import annotations

import pytest

from planlang.cli.main import COMMANDS, run


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*filter(None, [command]), "-h"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Usage: planlang")
    assert "\\b" not in text
    assert "\b" not in text


@pytest.mark.parametrize("command", ["compile", "show"])
def test_examples_stand_on_lines_of_their_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([command, "-h"])
    assert f"\n      planlang {command} qwen_stable" in capsys.readouterr().out


def test_without_a_model_show_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    run(["show", "qwen"])
    assert "give --model" in capsys.readouterr().out
    run(["show", "qwen", "--model", "Qwen/Qwen3-8B"])
    assert "give --model" not in capsys.readouterr().out


def test_a_model_that_the_catalog_lacks_is_had_by_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "llama"]) == 2
    assert "hf download NAME config.json" in capsys.readouterr().err
    assert run(["show", "qwen", "--model", "meta-llama/Llama-3.1-8B"]) == 2
    assert "hf download meta-llama/Llama-3.1-8B config.json" in capsys.readouterr().err
