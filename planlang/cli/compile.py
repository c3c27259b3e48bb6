"""`planlang compile`."""

from __future__ import annotations

from pathlib import Path

import click

from planlang import targets
from planlang.cli.options import Request, compiling
from planlang.cli.report import Reporter, write_output
from planlang.diagnostics.finding import PlanError, has_errors


@click.command("compile")
@compiling
@click.option("-t", "--target", type=click.Choice(targets.TARGETS), default="python", help="What to write.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where to; standard output otherwise."
)
def command(
    *,
    plan: str,
    model: str | None,
    cls: str | None,
    tp: int | None,
    options: tuple[str, ...],
    style: str,
    color: str,
    target: str,
    output: Path | None,
) -> int:
    r"""Write PLAN (a file, a bundled plan, or - for standard input) for PyTorch.

    Without --model it is compiled for the classes that it names, for any number of layers.

    \b
        planlang compile qwen_stable -o qwen_stable.py
        planlang compile my.plan --model Qwen/Qwen3-8B --tp 4 -t yaml
    """
    reporter = Reporter(style, color)
    try:
        compiled = Request(plan=plan, model=model, cls=cls, tp=tp, options=options).compile()
        findings = (*compiled.findings, *(() if compiled.failed else targets.check(compiled, target)))
    except PlanError as error:
        return reporter.report(error.findings)
    if not has_errors(findings):
        text = targets.emit(compiled, target)
        if output is None:
            click.echo(text, nl=False)
        else:
            findings = (*findings, *write_output(output, text))
    return reporter.report(findings)
