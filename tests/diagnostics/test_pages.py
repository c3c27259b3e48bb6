"""Every code has its page, and what a page shows is true: its example brings the code about, what it proposes does not.

Fenced blocks are run as they stand. A block may name its file behind its language (`plan base.plan`); a plan without
a name is `example.plan`. Commands begin with `$`: planlang's run in this process, others in a shell.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from planlang.cli.main import run
from planlang.diagnostics.codes import CODES
from planlang.diagnostics.explain import DOCS, known
from planlang.diagnostics.finding import PlanError

HEADINGS = ("What it means", "Why it matters", "Example", "Instead")
NOT_TO_BE_RUN = {"PLN8002", "PLN9001"}  # mistakes of ours, which no plan is known to bring about
# One mistake that a model's code runs into at one operator after another.
AT_SEVERAL_OPERATORS = {"PLN4010", "PLN6007"}
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WORLD = 4


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it names, its text."""

    language: str
    name: str
    text: str


def sections(number: str) -> dict[str, str]:
    """The text under each heading of a page, in order."""
    text = (DOCS / f"{number}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text: str) -> list[Block]:
    return [Block(language, name, content) for language, name, content in _FENCE.findall(text)]


@dataclass(frozen=True)
class Outcome:
    """What running a section found: codes with their severities; and whether anything ran."""

    found: set[tuple[str, str]]
    ran: bool

    @property
    def errors(self) -> set[str]:
        return {code for code, severity in self.found if severity == "error"}

    @property
    def codes(self) -> set[str]:
        return {code for code, _ in self.found}


def outcome(shown: list[Block], commands: list[str], capsys: pytest.CaptureFixture[str]) -> Outcome:
    """Writes the files of a section, then runs its commands or its Python."""
    found: set[tuple[str, str]] = set()
    for block in shown:
        if block.name or block.language == "plan":
            Path(block.name or "example.plan").write_text(block.text, encoding="utf-8")
    pythons = [block.text for block in shown if block.language == "python" and not block.name]
    for code in pythons:
        found |= _run_python(code)
    if pythons:
        return Outcome(found, True)
    for command in commands:
        if command.startswith("planlang "):
            found |= _run_command(command, capsys)
        else:
            subprocess.run(command, shell=True, check=True)
    return Outcome(found, bool(commands))


def commands_of(shown: list[Block]) -> list[str]:
    lines = [line for block in shown if block.language == "console" for line in block.text.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def _run_command(command: str, capsys: pytest.CaptureFixture[str]) -> set[tuple[str, str]]:
    capsys.readouterr()
    run([*shlex.split(command)[1:], "--format", "json"])
    written = capsys.readouterr()
    log = json.loads(written.err or written.out)  # the findings of `check` are its output
    return {(finding["code"], finding["severity"]) for finding in log["findings"]}


def _run_python(code: str) -> set[tuple[str, str]]:
    with world() if "init_device_mesh" in code else nullcontext():
        try:
            exec(compile(code, "<page>", "exec"), {"__name__": "page"})
        except PlanError as error:
            return {(finding.code.number, finding.severity.value) for finding in error.findings}
    return set()


class world:  # noqa: N801 (reads as a statement)
    """Rank 0 of four that do not exist: collectives do nothing."""

    def __enter__(self) -> None:
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=_WORLD, store=FakeStore())

    def __exit__(self, *_: Any) -> None:
        import torch.distributed as dist

        dist.destroy_process_group()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own for each page, from which modules are imported as from that of a script."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_every_code_has_its_page_and_every_page_its_code() -> None:
    assert {path.name for path in DOCS.iterdir()} == {f"{number}.md" for number in CODES}
    assert known() == tuple(CODES[number] for number in sorted(CODES))


@pytest.mark.parametrize("number", sorted(CODES))
def test_form(number: str) -> None:
    text = (DOCS / f"{number}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {number}: {CODES[number].name}\n\n## ")
    headings = tuple(re.findall(r"^## (.+)$", text, re.MULTILINE))
    assert headings in (HEADINGS, (*HEADINGS, "See also"))
    for heading, content in sections(number).items():
        assert content.strip(), f"nothing stands under {heading!r}"
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for other in re.findall(r"PLN\d{4}", text):
        assert other in CODES
    assert not re.search(r"(?<![\w/.])/(?:home|root|tmp|work|usr)\b", text)


@pytest.fixture(autouse=True)
def no_process_group(process_group: None) -> Iterator[None]:
    """A page may make its own, and a verification leaves its own behind."""
    yield
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("number", sorted(set(CODES) - NOT_TO_BE_RUN))
def test_example_and_instead(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = sections(number)
    wrong, right = blocks(page["Example"]), blocks(page["Instead"])
    example = outcome(wrong, commands_of(wrong), capsys)
    assert example.ran, "the example shows no command and no Python"
    assert number in example.codes
    if number not in AT_SEVERAL_OPERATORS:
        assert example.errors <= {number}, "the example is about one thing"
    if right:
        same = [command for command in commands_of(wrong) if command.startswith("planlang ")]
        better = outcome(right, commands_of(right) or same, capsys)
        assert better.ran
        assert not better.errors
        assert number not in better.codes
