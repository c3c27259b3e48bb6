"""Standard streams that are closed, full, given up or of another encoding never hide what a command found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = "# π ≤\nplan good for Qwen3ForCausalLM\n*.mlp.up_proj: colwise  # 日本\n"
BAD = "plan bad for Qwen3ForCausalLM\n*.mlp.up_prj: colwise\n"
PROGRAM = f"{sys.executable} -m planlang"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.plan").write_text(GOOD, encoding="utf-8")
    Path("bad.plan").write_text(BAD)


def shell(script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", script.replace("planlang", PROGRAM)],
        env=os.environ | environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("planlang compile bad.plan 2>&1 | true; exit ${PIPESTATUS[0]}", 1),
        ("planlang compile bad.plan --format json 2>&1 | head -c0; exit ${PIPESTATUS[0]}", 1),
        ("planlang models nothing 2>&1 | true; exit ${PIPESTATUS[0]}", 2),
        ("planlang compile good.plan | true; exit ${PIPESTATUS[0]}", 0),
        ("planlang compile bad.plan 2>&-", 1),
        ("planlang compile bad.plan 2>/dev/full", 1),
        ("planlang compile good.plan >&-", 2),
        ("planlang explain PLN3001 >&- 2>&-", 2),
        ("planlang compile - <&-", 1),
        ("planlang compile good.plan -o good.py <&- >&- 2>&-", 0),
    ],
)
def test_the_exit_code_is_that_of_what_was_found(script: str, code: int) -> None:
    done = shell(script)
    assert done.returncode == code, done.stderr
    assert b"PLN9001" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_a_file_is_whole_without_any_stream() -> None:
    assert shell("planlang compile good.plan -o one.py").returncode == 0
    assert shell("planlang compile good.plan -o two.py <&- >&- 2>&-").returncode == 0
    assert Path("one.py").read_bytes() == Path("two.py").read_bytes()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_plans_and_modules_are_utf8_whatever_the_terminal_has(encoding: str) -> None:
    shell("planlang compile good.plan -o good.py")
    done = shell("planlang compile good.plan", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stdout) == (0, Path("good.py").read_bytes())
    assert "π ≤" in done.stdout.decode()
    done = shell("planlang fmt - < good.plan", PYTHONIOENCODING=encoding)
    assert done.returncode == 0
    assert "π ≤" in done.stdout.decode()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_what_an_encoding_lacks_is_shown_by_its_escape(encoding: str) -> None:
    done = shell("planlang fmt --diff good.plan", PYTHONIOENCODING=encoding)
    assert done.returncode == 1, done.stderr
    done = shell("planlang compile nö≤.plan", PYTHONIOENCODING=encoding)
    assert done.returncode == 2
    assert b"error[PLN0001]" in done.stderr


def test_a_name_that_is_no_text() -> None:
    Path(os.fsdecode(b"odd\xff.plan")).write_text(BAD)
    done = shell("planlang compile odd$'\\xff'.plan")
    assert done.returncode == 1
    assert b"error[PLN3001]" in done.stderr
    Path(os.fsdecode(b"odd\xff.plan")).write_text(GOOD, encoding="utf-8")
    done = shell("planlang compile odd$'\\xff'.plan")
    assert done.returncode == 0
    compile(done.stdout, "emitted.py", "exec")
