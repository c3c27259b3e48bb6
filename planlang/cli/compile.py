"""`planlang compile`."""

from __future__ import annotations

from pathlib import Path

import click

from planlang import targets
from planlang.cli.options import Request, compiling
from planlang.cli.output import STDOUT, check_output, chosen_target
from planlang.cli.report import Reporter, write_output
from planlang.diagnostics.finding import PlanError, has_errors


@click.command("compile")
@compiling()
@click.option(
    "-t", "--target", type=click.Choice(targets.TARGETS), help="What to write; by the suffix of FILE, else python."
)
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Where to; else, and for -, standard output.")
def command(
    *,
    plan: str,
    model: str | None,
    cls: str | None,
    tp: int | None,
    options: tuple[str, ...],
    style: str,
    color: str,
    target: str | None,
    output: str | None,
) -> int:
    """Write PLAN (a file, a bundled plan, or - for standard input) for PyTorch.

    Without --model it is compiled for the classes that it names, for any number of layers.

    \b
        planlang compile qwen_stable -o qwen_stable.py
        planlang compile my.plan --model Qwen/Qwen3-8B --tp 4 -o my_plan.yaml
    """  # noqa: D301 (the escape is click's mark for lines that stay as they are)
    reporter = Reporter(style, color)
    file = None if output == STDOUT else output
    kind = chosen_target(target, file)
    request = Request(plan=plan, model=model, cls=cls, tp=tp, options=options)
    try:
        opened = request.open()
        compiled = request.compile(opened)
        findings = (*compiled.findings, *(() if compiled.failed else targets.check(compiled, kind)))
    except PlanError as error:
        return reporter.report(error.findings)
    if file is not None:
        findings = (*findings, *check_output(file, kind, request.inputs(opened)))
    if not has_errors(findings):
        text = targets.emit(compiled, kind)
        if file is None:
            click.echo(text.encode(), nl=False)  # UTF-8 as in a file, whatever the terminal has
        else:
            findings = (*findings, *write_output(Path(file), text))
    return reporter.report(findings)
