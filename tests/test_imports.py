"""What imports what: the order of the layers, no torch where none is needed; and how long modules are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "planlang"
MOST_LINES = 350
# Longer modules, and why each is one module.
LONG = {
    "analysis/flow/forward.py": "the forward walk: one class with one state, event by event",
    "syntax/nodes.py": "every node of the language on one page: dataclasses and their docstrings",
}
COMMANDS = {
    "fmt": ["fmt", "--check", "plans"],
    "show": ["show", "qwen_stable", "--model", "Qwen/Qwen3-8B", "--tp", "8"],
    "compile": ["compile", "qwen_stable"],
    "compile for a model": ["compile", "qwen", "--model", "Qwen/Qwen3-8B", "-t", "yaml"],
    "explain": ["explain", "PLN3001"],
    "check": ["check", "qwen_stable", "--model", "Qwen/Qwen3-8B", "--tp", "8"],
    "models": ["models"],
}


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_the_layers_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "imports run one way KEPT" in done.stdout
    assert "only syntax knows Lark KEPT" in done.stdout


_REPORT = "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"


def imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The packages that a process had imported in the end, as it wrote them on its last line."""
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_importing_planlang_imports_no_torch() -> None:
    names = imported(python(f"import sys, planlang; planlang.__version__; {_REPORT}"))
    assert "planlang" in names
    assert not names & {"torch", "transformers", "lark", "rich", "yaml"}


def test_every_function_can_be_named_without_torch() -> None:
    script = "for name in planlang.__all__:\n    name.endswith(('Parallel', 'Attention')) or getattr(planlang, name)"
    assert not imported(python(f"import sys, planlang\n{script}\n{_REPORT}")) & {"torch", "transformers"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_no_torch(command: str) -> None:
    code = f"import sys; from planlang.cli.main import run; code = run(sys.argv[1:]); {_REPORT}; sys.exit(code)"
    done = python(code, *COMMANDS[command])
    names = imported(done)
    assert "planlang" in names
    assert not names & {"torch", "transformers"}
    assert done.stdout or command == "fmt"


def test_torch_is_seen_where_it_is_imported() -> None:
    """The tests above could find it."""
    code = f"import sys, planlang; planlang.load('qwen').styles(); {_REPORT}"
    assert "torch" in imported(python(code))


def test_grammars_and_plans_hold_no_python() -> None:
    for folder in ("grammars", "plans"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        assert files
        assert {path.suffix for path in files} <= {".lark", ".plan"}


def test_modules_are_short() -> None:
    lines = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for path in PACKAGE.rglob("*.py")
    }
    assert len(lines) > 50
    too_long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert set(too_long) == set(LONG), too_long
