"""`planlang check`."""

from __future__ import annotations

import click

from planlang.analysis.flow.passes import CONTRACTS, Contract
from planlang.cli.options import Request, compiling
from planlang.cli.report import Reporter
from planlang.diagnostics.finding import Finding, PlanError


@click.command("check")
@compiling
@click.option(
    "--contract",
    type=click.Choice(CONTRACTS),
    default="torch",
    show_default=True,
    help="What the loss takes: whole logits or DTensors (torch), whole ones only (hf), or evenly cut ones (nemo-rl).",
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
    contract: Contract,
) -> int:
    """Check that PLAN computes what a single device computes, forward and backward, without running it.

    Without --model it is checked on a model of the catalog for each class that it names, and without --tp on 2 ranks.
    """
    from planlang.checker import check

    reporter = Reporter(style, color)
    request = Request(plan=plan, model=model, cls=cls, tp=tp, options=options)
    try:
        reports = check(request.open(), model, tp=tp, cls=cls, contract=contract)
    except PlanError as error:
        return reporter.report(error.findings)
    findings: dict[Finding, None] = {}
    for report in reports:
        findings |= dict.fromkeys(report.findings)
    code = reporter.report(findings)
    if style in ("full", "concise"):
        for report in reports:
            mesh = ", ".join(f"{axis}={size}" for axis, size in report.sizes.items())
            if report.sizes and all(size == 1 for size in report.sizes.values()):
                click.echo(f"{report.model}, mesh {mesh}: nothing is split")
            elif report.checked:
                count = sum(len(each.passes) for each in report.checked)
                verdict = "right, forward and backward" if report.proved else "see the findings"
                click.echo(f"{report.model}, mesh {mesh}: {count} passes checked, {verdict}")
    return code
