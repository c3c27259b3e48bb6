"""`planlang explain`."""

from __future__ import annotations

import sys

import click

from planlang.diagnostics.codes import CODES
from planlang.diagnostics.explain import find, page
from planlang.diagnostics.finding import did_you_mean


@click.command("explain")
@click.argument("code", required=False)
def command(*, code: str | None) -> int:
    """Explain CODE (PLN3001, or its name unmatched-rule); without CODE, list them all."""
    if code is None:
        width = max(len(row.name) for row in CODES.values())
        for row in CODES.values():
            click.echo(f"{row.number}  {row.severity:<7}  {row.name:<{width}}  {row.summary}")
        return 0
    text = page(code)
    if text is None or find(code) is None:
        names = [*CODES, *(row.name for row in CODES.values())]
        raise click.UsageError(
            f"there is no finding {code!r}; {did_you_mean(code, names, '`planlang explain` lists them all')}"
        )
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        click.echo(text, nl=False)
    return 0
