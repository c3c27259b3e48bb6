"""Files that are none, names that are hard to print, and folders that are gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planlang.cli.main import run


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "a.plan")
    assert run(["check", str(tmp_path / "a.plan")]) == 2
    captured = capsys.readouterr()
    assert "pipe" in captured.out + captured.err


def test_a_loop_of_links_as_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").symlink_to(tmp_path / "b.py")
    (tmp_path / "b.py").symlink_to(tmp_path / "a.py")
    assert run(["compile", "qwen", "-o", str(tmp_path / "a.py")]) == 2
    assert "PLN0006" in capsys.readouterr().err


def test_a_working_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(["compile", "qwen"]) == 0
    assert run(["compile", "mine.plan"]) == 2


@pytest.mark.parametrize("name", ["a\udcff.plan", "a\x1b[31m.plan", "a" * 5000 + ".plan", "a\x00.plan"])
def test_names_that_cannot_be_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", name]) == 2
    err = capsys.readouterr().err
    assert "PLN0001" in err
    assert "\x1b" not in err
    assert "\x00" not in err
    err.encode("utf-8")


def test_a_failed_write_is_not_counted_as_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.plan"
    path.write_text("plan a for B\n*.x:colwise\n")
    path.chmod(0o444)
    assert run(["fmt", str(path)]) == 2
    assert "1 file formatted" not in capsys.readouterr().err
