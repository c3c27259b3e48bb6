"""Cases of the corpora whose header says what `planlang check` must find: codes and lines, and no wording.

The comment lines at the top of a case are its header, one setting each:

    # flags: --model Qwen/Qwen3-8B --tp 4      the options of the command
    # expect: PLN5004 8, PLN5005 11            every error and warning, with its line; `none` where there is none
    # notes: PLN8001 6                         notes that must be there too; others may be
    # verdict: right                           `wrong`; `right`, proved; `single`, nothing is split; `unproved`, neither

`pytest --update` writes `expect` and `verdict` anew; they are then to be read.

What else a corpus says of its cases stands there too, under names of its own.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from planlang.cli.main import run
from planlang.diagnostics.codes import CODES, Severity

CORPUS = Path(__file__).with_name("corpus")
FLAGS = "# flags:"
PROVED = "right, forward and backward"
SINGLE = "nothing is split"
Lines: TypeAlias = set[tuple[str, int]]
_SETTING = re.compile(r"# (\w+):\s*(.*)")
_FOUND = re.compile(r"^(.+?):(\d+):\d+: (PLN\d{4}) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One plan of a corpus, by its file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def settings(self) -> dict[str, list[str]]:
        """The header: everything that is said under each name."""
        found: dict[str, list[str]] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            match = _SETTING.fullmatch(line.rstrip())
            if match is None:
                break
            found.setdefault(match[1], []).append(match[2])
        return found

    def one(self, name: str) -> str:
        """What is said once under a name; empty where nothing is."""
        (value,) = self.settings.get(name, [""])
        return value

    @property
    def flags(self) -> list[str]:
        return shlex.split(self.one("flags"))

    def lines(self, name: str) -> Lines:
        """Codes and lines, as `expect` and `notes` have them."""
        said = self.one(name)
        pairs = [each.split() for each in said.split(",")] if said not in ("", "none") else []
        return {(code, int(line)) for code, line in pairs}

    def write(self, **settings: str) -> None:
        """Gives settings of the header other values; they must be there, so that no line moves."""
        text = self.path.read_text(encoding="utf-8")
        for name, value in settings.items():
            text = re.sub(rf"^# {name}: .*$", f"# {name}: {value}", text, count=1, flags=re.MULTILINE)
        self.path.write_text(text, encoding="utf-8", newline="\n")


def cases(folder: Path) -> list[Case]:
    """All cases of a folder, sorted."""
    return [Case(path) for path in sorted(folder.glob("*.plan"))]


def flags(plan: Path) -> list[str]:
    """The options in the first line of a plan."""
    first = plan.read_text(encoding="utf-8").partition("\n")[0]
    return shlex.split(first.removeprefix(FLAGS)) if first.startswith(FLAGS) else []


def check(
    plan: Path, options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str]:
    """Runs `planlang check` beside a plan.

    Returns:
        The exit code, and all that was written.
    """
    monkeypatch.chdir(plan.parent)
    code = run(["check", plan.name, *options, "--color", "never"])
    captured = capsys.readouterr()
    return code, captured.err + captured.out


def assert_expected(
    case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, update: bool
) -> None:
    """Checks a case and holds its header against what was found.

    Args:
        case: which.
        capsys: pytest's.
        monkeypatch: pytest's.
        update: whether to write the header anew first.
    """
    code, written = check(case.path, [*case.flags, "--format", "concise"], capsys, monkeypatch)
    found = {(number, int(line)) for file, line, number in _FOUND.findall(written) if file == case.path.name}
    weighty = {each for each in found if CODES[each[0]].severity is not Severity.NOTE}
    wrong = any(CODES[number].severity is Severity.ERROR for number, _ in weighty)
    verdict = "wrong" if wrong else "right" if PROVED in written else "single" if SINGLE in written else "unproved"
    if update:
        lines = ", ".join(f"{number} {line}" for number, line in sorted(weighty, key=lambda each: each[::-1]))
        case.write(expect=lines or "none", verdict=verdict)
    assert code == wrong, written
    assert weighty == case.lines("expect"), written
    assert case.lines("notes") <= found - weighty, written
    assert verdict == case.one("verdict"), written
    assert not (case.name.startswith("right_") and wrong), written
