"""Prints findings and writes results: findings on standard error, results on standard output or into a file."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding, in_order
from planlang.diagnostics.render import render, summary
from planlang.source import printable

FOUND, UNUSABLE = 1, 2


@dataclass(frozen=True, slots=True)
class Reporter:
    """How findings are printed, and where: on standard error, unless they are themselves what was asked for."""

    style: str
    color: str
    err: bool = True

    def report(self, findings: Iterable[Finding], *, hint: bool = True) -> int:
        """Prints findings and returns the exit code that they call for."""
        ordered = in_order(findings)
        if ordered or self.style in ("json", "sarif"):
            click.echo(render(ordered, self.style, color=self.colored()), err=self.err, color=True)
        errors = [finding for finding in ordered if finding.severity is Severity.ERROR]
        if errors and self.style == "full" and hint:
            first = errors[0].code
            click.echo(f"\n{summary(ordered)}; `planlang explain {first}` says more", err=self.err)
        return self.code(ordered)

    def code(self, findings: Iterable[Finding]) -> int:
        """The exit code that findings call for."""
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if any(finding.code.number.startswith("PLN0") for finding in errors):
            return UNUSABLE
        return FOUND if errors else 0

    def colored(self) -> bool:
        """Whether to use colours: as asked, else on a terminal unless `NO_COLOR` is set."""
        if self.color != "auto":
            return self.color == "always"
        return (
            (sys.stderr if self.err else sys.stdout).isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )


def write_output(path: Path, text: str) -> tuple[Finding, ...]:
    """Writes a file whole or not at all; returns a finding where it cannot be written."""
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        if path.exists():
            if not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(0, "it is read-only")
            if not path.is_file():  # a pipe or a device cannot be replaced
                path.write_text(text, encoding="utf-8", newline="\n")
                return ()
        target = path.resolve()  # a link stays a link
        _replace(target, text)
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links is a RuntimeError
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        folder = path.parent
        help_ = (
            f"make the folder `{printable(str(folder))}` first"
            if not _is_folder(folder)
            else "name another file with `-o`"
        )
        message = f"`{printable(str(path))}` cannot be written: {reason}"
        return (Finding(code=codes.UNWRITABLE_OUTPUT, message=message, help=help_),)
    return ()


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a circle of links, a name that is too long
        return True


def _replace(target: Path, text: str) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
