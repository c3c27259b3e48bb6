"""Options that several commands share, and the plan that they make of them."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from planlang.compiler import Compiled
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError
from planlang.diagnostics.render import FORMATS
from planlang.loaded import Plan, tree_named
from planlang.model.tree import Tree
from planlang.opening import open_plan
from planlang.plan.files import MOST_BYTES, decode, load
from planlang.source import Source, printable

Command = TypeVar("Command", bound=Callable[..., Any])
STDIN = "-"
RANKS = click.IntRange(1, 2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks to be compiled."""

    plan: str
    model: str | None
    cls: str | None
    tp: int | None
    options: tuple[str, ...]

    def compile(self, plan: Plan | None = None) -> Compiled:
        """The compiled plan, with its findings.

        Args:
            plan: what `open` returned, where that was called already.

        Raises:
            PlanError: the plan cannot be read, or there is no such model.
        """
        opened = plan or self.open()
        return opened.compile(self.model_tree(), tp=self.tp)

    def open(self) -> Plan:
        """The plan as it was read; mistakes in its text are among its findings.

        Raises:
            PlanError: it cannot be read.
        """
        options: dict[str, str] = {}
        for name, value in map(_assignment, self.options):
            if name in options:
                raise click.UsageError(f"-D {name} is given twice")
            options[name] = value
        if self.plan != STDIN:
            return open_plan(self.plan, options)
        source = read_stdin()
        program, findings = load(source)
        return Plan(source, program, options, findings)

    def inputs(self, plan: Plan) -> tuple[Path, ...]:
        """Every file that the plan and the model are made from."""
        model = Path(self.model).expanduser() if self.model else None
        return (*plan.files, *((model, model / "config.json") if model else ()))

    def model_tree(self) -> Tree | None:
        """The model to compile for, where one is named.

        Raises:
            PlanError: there is no such model.
        """
        if self.model is None:
            if self.cls is not None:
                raise click.UsageError("--as names the class of a model: give --model too")
            return None
        return tree_named(self.model, self.cls)


def read_stdin() -> Source:
    """The text on standard input."""
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:  # a folder, a terminal that is gone
        message = f"standard input cannot be read: {str(error.strerror).lower()}"
        raise PlanError([Finding(code=codes.UNREADABLE_FILE, message=message)]) from error
    source = decode(content, "<stdin>")
    if isinstance(source, Finding):
        raise PlanError([source])
    return source


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.UsageError(f"-D takes NAME=VALUE, not {text!r}")
    return name, value


def compiling(ranks: click.ParamType[Any] = RANKS) -> Callable[[Command], Command]:
    """Adds the plan and the options that say what it is compiled for; `ranks` is what `--tp` takes."""

    def add(command: Command) -> Command:
        return reporting(_added(command, ranks))

    return add


def _added(command: Command, ranks: click.ParamType[Any]) -> Command:
    for decorate in reversed(
        (
            click.argument("plan"),
            click.option("--model", metavar="MODEL", help="A catalog name, a config.json, or its folder."),
            click.option(
                "--as", "cls", metavar="CLASS", help="Which class of the model: Qwen3ForSequenceClassification."
            ),
            click.option(
                "--tp",
                type=ranks,
                metavar="N" if isinstance(ranks, click.IntRange) else ranks.name,
                help="How many ranks the axis `tp` has.",
            ),
            click.option("-D", "options", multiple=True, metavar="NAME=VALUE", help="Sets an option of the plan."),
        )
    ):
        command = decorate(command)
    return command


def reporting(command: Command) -> Command:
    """Adds the options that say how findings are printed."""
    command = click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Whether to use colours."
    )(command)
    return click.option(
        "--format", "style", type=click.Choice(FORMATS), default="full", help="How findings are printed."
    )(command)


def difference(source: Source, text: str, what: str) -> str:
    """A unified diff from a text to another, which is `what`: formatted, fixed."""
    before, after = (each.splitlines(keepends=True) for each in (source.text, text))
    name = printable(source.name)
    lines = difflib.unified_diff(before, after, name, f"{name} ({what})")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
