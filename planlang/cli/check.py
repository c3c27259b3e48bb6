"""`planlang check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from planlang.analysis.flow.passes import CONTRACTS, Contract
from planlang.cli.options import STDIN, Request, compiling, difference
from planlang.cli.ranks import SeveralRanks
from planlang.cli.report import Reporter, write_output
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError
from planlang.plan.files import read_source
from planlang.source import printable

if TYPE_CHECKING:
    from planlang.checker import Report
    from planlang.fix import Fixed
    from planlang.loaded import Plan


@click.command("check")
@compiling(ranks=SeveralRanks())
@click.option(
    "--contract",
    type=click.Choice(CONTRACTS),
    default="torch",
    show_default=True,
    help="What the loss takes: whole logits or DTensors (torch), whole ones only (hf), or evenly cut ones (nemo-rl).",
)
@click.option("--fix", is_flag=True, help="Write the cures that are known into the plan; each was checked again.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and change nothing.")
def command(
    *,
    plan: str,
    model: str | None,
    cls: str | None,
    tp: tuple[int, ...] | None,
    options: tuple[str, ...],
    style: str,
    color: str,
    contract: Contract,
    fix: bool,
    diff: bool,
) -> int:
    """Check that PLAN computes what a single device computes, forward and backward, without running it.

    Without --model it is checked on a model of the catalog for each class that it names, and without --tp on 2 ranks.
    --tp 2,4,8 checks it on each of these numbers of ranks.
    """
    from planlang.checker import check, findings_of

    if cls is not None and model is None:
        raise click.UsageError("--as names the class of a model: give --model too")
    reporter = Reporter(style, color, err=diff)
    request = Request(plan=plan, model=model, cls=cls, tp=None, options=options)

    def look(opened: Plan) -> tuple[Report, ...]:
        return check(opened, model, tp=tp, cls=cls, contract=contract)

    try:
        opened = request.open()
        if not (fix or diff):
            reports = look(opened)
            return _print(reporter, reports, findings_of(reports))
        from planlang.fix import fix as fixed_by
        from planlang.fix import unfixable

        reason = unfixable(opened)
        if reason is not None:
            return reporter.report([reason])
        fixed = fixed_by(opened, look)
        if diff:
            click.echo(difference(opened.source, fixed.plan.source.text, "fixed"), nl=False)
            if not fixed.changes and style == "full":
                click.echo("no fix is known", err=True)
            reports = look(opened)
            return _print(reporter, reports, findings_of(reports))
        return _write(reporter, opened, fixed, plan)
    except PlanError as error:
        return reporter.report(error.findings)


def _write(reporter: Reporter, opened: Plan, fixed: Fixed, plan: str) -> int:
    """Writes the plan with its fixes, and reports what is left."""
    from planlang.checker import findings_of

    findings = list(findings_of(fixed.reports))
    if plan == STDIN:
        click.echo(fixed.plan.source.text, nl=False)
        return Reporter(reporter.style, reporter.color).report(findings)
    if fixed.changes and opened.source.path is not None:
        failed = _changed(opened) or write_output(opened.source.path, fixed.plan.source.text)
        if failed:
            return reporter.report(failed)
    code = _print(reporter, fixed.reports, findings)
    if reporter.style == "full":
        count = len(fixed.changes)
        what = "1 fix" if count == 1 else f"{count} fixes"
        click.echo(f"{what} written to {opened.source.name}" if count else "no fix is known", err=True)
    return code


def _changed(opened: Plan) -> tuple[Finding, ...]:
    """A finding where the file is no longer what was read."""
    assert opened.source.path is not None
    now = read_source(opened.source.path, opened.source.name)
    if isinstance(now, Finding):
        return (now,)
    if now.text == opened.source.text:
        return ()
    message = f"`{printable(opened.source.name)}` was changed while it was checked, so nothing is written"
    return (Finding(code=codes.UNWRITABLE_OUTPUT, message=message, help="run `planlang check --fix` again"),)


def _print(reporter: Reporter, reports: Sequence[Report], findings: Sequence[Finding]) -> int:
    code = reporter.report(findings)
    if reporter.style in ("full", "concise"):
        for report in reports:
            if report.sizes:
                click.echo(f"{printable(report.model)}, mesh {report.mesh}: {_verdict(report)}", err=reporter.err)
    return code


def _verdict(report: Report) -> str:
    if report.checked:
        count = sum(len(each.passes) for each in report.checked)
        if report.proved:
            return f"{count} passes checked, right, forward and backward"
        if report.right and len(report.checked) > 1:
            return f"{count} passes checked, right for each axis by itself"
        return f"{count} passes checked, {'these are right, ' if report.right else ''}see the findings"
    alone = report.ok and all(size == 1 for size in report.sizes.values())
    return "nothing is split" if alone else "no pass checked, see the findings"
