"""README and docs run: files that they show are written, commands run and print what is shown, Python runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
_BLOCK = re.compile(r"^```(\w+)?(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is, its text."""

    language: str
    file: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(found[1] or "", found[2] or "", found[3], text.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(text)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path) -> None:
    ran = 0
    for block in blocks(page):
        where = f"{page}:{block.line}"
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        if block.language == "console":
            for command, expected in commands(block.text):
                check(command, expected, tmp_path, where)
                ran += 1
        elif block.language == "python" and not block.file:
            shell(f"{sys.executable} - <<'END'\n{block.text}END", tmp_path, where)
            ran += 1
        elif block.language == "plan":
            assert block.file, f"{where}: a plan needs a file name, so that it is run"
    assert ran or page != "README.md"


def commands(text: str) -> list[tuple[str, str]]:
    """The commands behind `$`, each with the output shown below it."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def check(command: str, expected: str, folder: Path, where: str) -> None:
    """Runs a command; `…` alone on a line stands for any lines."""
    output = shell(f"{command} 2>&1; true", folder, where)
    pattern = "".join(r"(?:.*\n)*" if line == "…\n" else re.escape(line) for line in expected.splitlines(keepends=True))
    assert re.fullmatch(pattern, output), f"{where}: $ {command}\n--- shown\n{expected}\n--- printed\n{output}"


def shell(command: str, folder: Path, where: str) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    paths = os.pathsep.join((str(folder), str(ROOT)))  # this checkout, wherever planlang is installed from
    environment = {**os.environ, "PATH": path, "PYTHONPATH": paths, "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{where}: $ {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_link_of_the_readme_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target
