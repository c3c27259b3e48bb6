"""`planlang verify`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from planlang.cli.options import Request, compiling
from planlang.cli.ranks import SeveralRanks
from planlang.cli.report import Reporter
from planlang.cli.tables import print_table
from planlang.diagnostics.finding import PlanError
from planlang.source import printable

if TYPE_CHECKING:
    from planlang.verifier import Verified


@click.command("verify")
@compiling(ranks=SeveralRanks())
@click.option("--full", is_flag=True, help="Keep the real widths, with one layer of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Every run as JSON on standard output.")
def command(
    *,
    plan: str,
    model: str | None,
    cls: str | None,
    tp: tuple[int, ...] | None,
    options: tuple[str, ...],
    style: str,
    color: str,
    full: bool,
    as_json: bool,
) -> int:
    """Run PLAN on all ranks in this process, on a tiny twin of the model, and compare it with one device.

    The twin has the model's classes and numbers of heads, one layer of each kind and small widths. Compared are logits,
    every gradient and the weights after a step, in float64; without --tp on 2 and on 4 ranks.
    """
    if model is None:
        raise click.UsageError("verify runs a model: give --model")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # plans that raise leave collectives behind, as they should
    from planlang.verifier import verify

    reporter = Reporter(style, color, err=as_json)
    request = Request(plan=plan, model=model, cls=cls, tp=None, options=options)
    try:
        found = verify(request.open(), model, tp=tp, cls=cls, full=full, workers=_cores(), progress=_progress(reporter))
    except PlanError as error:
        return reporter.report(error.findings)
    code = reporter.report(found.findings)
    if as_json:
        click.echo(json.dumps(_data(found), indent=1))
    elif style == "full":
        _print(found)
    return code


def _cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _progress(reporter: Reporter) -> Callable[[str, int, int], None] | None:
    """A line on a terminal's standard error that says what runs."""
    if reporter.style != "full" or not sys.stderr.isatty():
        return None

    def show(what: str, done: int, total: int) -> None:
        text = f"{done + 1} of {total}: {what}" if what else ""
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)

    return show


def _print(found: Verified) -> None:
    """A row for each circumstance, a column for each number of ranks."""
    if not found.results:
        return
    ranks = list(dict.fromkeys(each.ranks for each in found.results))
    names = list(dict.fromkeys(each.case.name for each in found.results))
    by_place = {(each.case.name, each.ranks): each for each in found.results}

    def cell(name: str, count: int) -> str:
        result = by_place.get((name, count))
        if result is None:
            return ""
        outcome = result.outcome
        worst = max(outcome.forward_error, outcome.worst, outcome.stepped)
        return f"right, {worst:.0e}" if result.right else "wrong" if outcome.verdict != "crash" else "raises"

    click.echo(f"{printable(found.model)} ({found.twin})\n")
    print_table(
        ["circumstances", *(f"tp={count}" for count in ranks)],
        [[name, *(cell(name, count) for count in ranks)] for name in names],
    )
    right = sum(each.right for each in found.results)
    click.echo(f"\n{right} of {len(found.results)} runs are right")


def _data(found: Verified) -> dict[str, Any]:
    return {
        "model": found.model,
        "twin": found.twin,
        "ok": found.ok,
        "runs": [
            {
                "ranks": each.ranks,
                "circumstances": each.case.name,
                "right": each.right,
                "tolerance": each.tolerance,
                "seconds": round(each.seconds, 3),
                **each.outcome.as_dict(),
            }
            for each in found.results
        ],
    }
