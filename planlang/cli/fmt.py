"""`planlang fmt`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click

from planlang.cli.options import STDIN, difference, read_stdin, reporting
from planlang.cli.report import Reporter, write_output
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError
from planlang.plan.files import in_another_language, read_source
from planlang.resources import PLAN_SUFFIX
from planlang.source import Source, Span, printable
from planlang.syntax.format import format_source


@click.command("fmt")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Change nothing; print what would change.")
@reporting
def command(*, paths: tuple[str, ...], check: bool, diff: bool, style: str, color: str) -> int:
    """Format plans: files, folders that are searched for them, or - for standard input.

    A file is written only if what comes out parses to the same tree with the same comments.
    """
    reporter = Reporter(style, color)
    worst = 0
    changed = 0
    failed = 0
    findings: list[Finding] = []
    files = list(_files(paths))
    for path in files:
        try:
            source = read_stdin() if path is None else _read(path)
            text, found = format_source(source)
            findings += found
            if text is None:
                failed += 1
                continue
            if path is None and not (check or diff):
                click.echo(text.encode(), nl=False)
            elif text != source.text:
                changed += 1
                if diff:
                    click.echo(difference(source, text, "formatted"), nl=False)
                if check or diff:
                    findings += _would_change(source, text, style, quiet=diff)
                elif path is not None:
                    unwritten = write_output(path, text)
                    findings += unwritten
                    changed -= len(unwritten)
                    failed += len(unwritten)
        except PlanError as error:
            findings += error.findings
            failed += 1
    worst = reporter.report(findings)
    if not files:
        click.echo("there is no .plan file", err=True)
    elif not (check or diff) and style == "full" and None not in files:
        left = len(files) - changed - failed
        were = "as it was" if left == 1 else "as they were"
        parts = [f"{_files_text(changed)} formatted", f"{_files_text(left)} left {were}"]
        parts += [f"{_files_text(failed)} could not be"] if failed else []
        click.echo(", ".join(parts), err=True)
    return worst or int(changed > 0 and (check or diff))


def _files_text(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _files(paths: tuple[str, ...]) -> Iterator[Path | None]:
    for name in paths:
        path = Path(name)
        if name == STDIN:
            yield None
        elif _is_folder(path):
            yield from sorted(each for each in path.rglob(f"*{PLAN_SUFFIX}") if not _is_folder(each))
        else:
            yield path


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no file has; reading it says so
        return False


def _read(path: Path) -> Source:
    source = in_another_language(path) or read_source(path)
    if isinstance(source, Finding):
        raise PlanError([source])
    return source


def _would_change(source: Source, text: str, style: str, *, quiet: bool) -> Iterator[Finding]:
    """A file that would change: a line for a person, a finding at its first line that would for a program."""
    if style == "full":
        if not quiet:
            click.echo(f"would format {printable(source.name)}", err=True)
        return
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(source.text, text, strict=False)))
    line, _ = source.position(min(at, len(source.text)))
    start = source.line_starts[line - 1]
    name = printable(source.name)
    message = f"`{name}` is not formatted"
    place = source.place(Span(start, start + len(source.line(line))))
    yield Finding(code=codes.UNFORMATTED, message=message, place=place, help=f"run `planlang fmt {name}`")
