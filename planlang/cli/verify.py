"""`planlang verify`."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from planlang.cli.numerics import Measuring, measuring
from planlang.cli.options import Request, compiling
from planlang.cli.ranks import SeveralRanks
from planlang.cli.report import Reporter
from planlang.cli.tables import print_table
from planlang.diagnostics.finding import PlanError, in_order
from planlang.diagnostics.render import render
from planlang.source import printable

if TYPE_CHECKING:
    from planlang.verifier import Verified


@click.command("verify")
@compiling(ranks=SeveralRanks())
@click.option("--full", is_flag=True, help="Keep the real widths, with one layer of each kind.")
@measuring
@click.option("--processes", type=click.IntRange(1, 1024), metavar="N", help="Run on N real processes, one a rank.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", help="Where real processes compute.")
@click.option(
    "--limit",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="How long a run on real processes may take; 120 where nothing is said.",
)
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
    measured: Measuring | None,
    processes: int | None,
    device: str,
    limit: float | None,
) -> int:
    """Run PLAN on all ranks, on a tiny twin of the model, and compare it with one device.

    The twin has the model's classes and numbers of heads, one layer of each kind and small widths. Compared are logits,
    every gradient and the weights after a step, in float64; without --tp on 2 and on 4 ranks.

    --numerics asks another question: how far does a right plan move the numbers, in the type in which one trains?
    """
    if model is None:
        raise click.UsageError("verify runs a model: give --model")
    if processes and tp not in (None, (processes,)):
        raise click.UsageError(f"--processes {processes} runs on {processes} ranks: leave --tp out")
    if device != "cpu" and not processes:
        raise click.UsageError(f"--device {device} needs real processes: give --processes")
    if limit is not None and not processes:
        raise click.UsageError("--limit is about real processes: give --processes")
    if measured and processes:
        raise click.UsageError("--numerics runs all ranks in this process: leave --processes out")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # plans that raise leave collectives behind, as they should
    from planlang.verifier import verify

    reporter = Reporter(style, color, err=False)
    request = Request(plan=plan, model=model, cls=cls, tp=None, options=options)
    progress = _progress(reporter)
    try:
        if measured:
            with _cleared(progress):
                numbers = measured.measure(request, tp=tp, full=full, progress=progress)
            return measured.show(numbers, reporter)
        with _cleared(progress):
            found = verify(
                request.open(),
                model,
                tp=tp,
                cls=cls,
                full=full,
                workers=_cores(),
                processes=processes or 0,
                device=device,
                limit=limit or 120.0,
                progress=progress,
            )
    except PlanError as error:
        return reporter.report(error.findings)
    if style == "json":
        click.echo(json.dumps(_data(found), indent=2))
        return reporter.code(found.findings)
    code = reporter.report(found.findings)
    if style == "full":
        _print(found)
    elif style == "concise" and found.results:
        click.echo(f"{printable(found.model)}: {_verdict(found)}")
    return code


def _cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _progress(reporter: Reporter) -> Callable[[str, int, int], None] | None:
    """A line on a terminal's standard error that says what runs."""
    if reporter.style != "full" or not sys.stderr.isatty():
        return None

    def show(what: str, done: int, total: int) -> None:
        text = f"{min(done + 1, total)} of {total}: {what}" if what else ""
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)

    return show


@contextmanager
def _cleared(progress: Callable[[str, int, int], None] | None) -> Iterator[None]:
    """Behind it the line that says what runs is gone."""
    try:
        yield
    finally:
        if progress:
            progress("", 0, 0)


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
    click.echo(f"\n{_verdict(found)}")


def _verdict(found: Verified) -> str:
    right = sum(each.right for each in found.results)
    return f"{right} of {len(found.results)} runs are right"


def _data(found: Verified) -> dict[str, Any]:
    """What all commands print as JSON, and every run."""
    return {
        **json.loads(render(in_order(found.findings), "json")),
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
                **_finite(each.outcome.as_dict()),
            }
            for each in found.results
        ],
    }


def _finite(value: Any) -> Any:
    """The same with `inf` and `nan` as text: JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
