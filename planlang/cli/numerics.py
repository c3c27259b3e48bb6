"""`planlang verify --numerics`: its options, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import click

from planlang.cli.options import Request
from planlang.cli.report import Reporter
from planlang.cli.tables import print_table
from planlang.diagnostics.finding import in_order
from planlang.diagnostics.render import render
from planlang.source import printable

if TYPE_CHECKING:
    from planlang.runtime.numerics.distance import Distance
    from planlang.runtime.numerics.report import Measured, Numerics, Reference, Side
    from planlang.runtime.numerics.tokens import Tokens

Command = TypeVar("Command", bound=Callable[..., Any])
_DTYPES = ("bfloat16", "float32", "float64")
_AGAINST = {"unsharded": "the model without a plan", "tp1": "the plan on one rank"}


@dataclass(frozen=True, slots=True)
class Measuring:
    """What `--numerics` asks for.

    Attributes:
        dtype: of weights and activations.
        reference: what the plan is held against.
    """

    dtype: str
    reference: str

    def measure(self, request: Request, **arguments: Any) -> Numerics:
        """Measures.

        Raises:
            PlanError: as `planlang.numerics`, which takes the other arguments.
        """
        from planlang.measurer import numerics

        assert request.model is not None
        return numerics(
            request.open(),
            request.model,
            cls=request.cls,
            dtype=self.dtype,
            reference=self.reference,  # type: ignore[arg-type]  # the option takes no other
            **arguments,
        )

    def show(self, found: Numerics, reporter: Reporter) -> int:
        """Prints what was found, and returns the exit code."""
        if reporter.style == "json":
            click.echo(json.dumps(_data(found), indent=2))
            return reporter.code(found.findings)
        code = reporter.report(found.findings)
        if reporter.style == "full":
            _print(found)
        elif reporter.style == "concise":
            for each in found.sizes:
                click.echo(f"{printable(found.model)}: {_conclusion(each, found.reference)}")
        return code


def measuring(command: Command) -> Command:
    """Adds the options; the command gets them as `measured`, which is `None` without `--numerics`."""

    @click.option("--numerics", is_flag=True, help="Measure how far the plan moves the numbers, bit by bit.")
    @click.option("--dtype", type=click.Choice(_DTYPES), help="The type for --numerics.  [default: bfloat16]")
    @click.option(
        "--reference",
        type=click.Choice(tuple(_AGAINST)),
        help="For --numerics, what the plan is held against: the model, or the plan on one rank.  [default: unsharded]",
    )
    @wraps(command)
    def measured(numerics: bool, dtype: str | None, reference: str | None, **others: Any) -> Any:
        if not numerics and (dtype or reference):
            raise click.UsageError(f"--{'dtype' if dtype else 'reference'} is about numerics: give --numerics too")
        asked = Measuring(dtype or _DTYPES[0], reference or "unsharded") if numerics else None
        return command(measured=asked, **others)

    return measured  # type: ignore[return-value]


def _print(found: Numerics) -> None:
    """Tables: what became of the output, of every module's and of every gradient; then whose doing it is."""
    if not found.sizes:
        return
    sides = [(each, side) for each in found.sizes for side in each.sides]
    columns = [f"tp={each.ranks}{', fixed tiles' if side is each.fixed else ''}" for each, side in sides]
    click.echo(
        f"{printable(found.model)} ({found.twin}) in {found.dtype}, batch {found.batch}, length {found.length}, "
        f"against {_AGAINST[found.reference]}\n{found.machine}\n"
    )
    print_table(["output", *columns], _outputs([side for _, side in sides]))
    click.echo("\nmodules in the order in which they end: largest difference, absolute and in ulp")
    print_table(["module", *columns], _folded([side.modules for _, side in sides]))
    click.echo("\ngradients: largest difference, absolute and in ulp")
    print_table(["parameter", *columns], _folded([side.gradients for _, side in sides]))
    click.echo("")
    for each in found.sizes:
        click.echo(_conclusion(each, found.reference))
        for name in each.fixed.left:
            click.echo(f"  fixed tiles do not cover {name}")


def _outputs(sides: Sequence[Side]) -> list[list[str]]:
    """A row for each figure, a column for each side."""
    rows: list[tuple[str, Callable[[Side], str]]] = [
        ("bits", lambda side: _bits(side.logits)),
        ("largest difference", lambda side: _figure(side, f"{side.logits.largest:.2g}")),
        ("mean difference", lambda side: _figure(side, f"{side.logits.mean:.2g}")),
        ("largest, in ulp", lambda side: _figure(side, f"{side.logits.steps:,}")),
        ("mean, in ulp", lambda side: _figure(side, f"{side.logits.mean_steps:.2g}")),
    ]
    if any(side.tokens for side in sides):
        rows += [
            ("KL of tokens, mean", lambda side: _token(side, lambda each: f"{each.kl_mean:.2g}")),
            ("KL of tokens, largest", lambda side: _token(side, lambda each: f"{each.kl_max:.2g}")),
            ("argmax changed", lambda side: _token(side, lambda each: f"{each.argmax_changed:.2%}")),
            ("token_mult_prob_error", lambda side: _token(side, lambda each: f"{each.prob_error:.6f}")),
        ]
    rows.append(("gradients", _gradients))
    return [[name, *(cell(side) for side in sides)] for name, cell in rows]


def _bits(distance: Distance) -> str:
    if not distance.finite:
        return "nan, inf or another shape"
    return "equal" if distance.equal else f"{distance.changed:.2%} differ"


def _figure(side: Side, text: str) -> str:
    return text if side.logits.finite else "?"


def _token(side: Side, text: Callable[[Tokens], str]) -> str:
    return text(side.tokens) if side.tokens else "?"


def _gradients(side: Side) -> str:
    differ = sum(not each.equal for each in side.gradients.values())
    return f"{differ} of {len(side.gradients)} differ" if differ else "equal"


def _folded(sides: Sequence[Mapping[str, Distance]]) -> list[list[str]]:
    """A row for each name; rows that follow each other and say the same are one."""
    rows = [(name or "(the model)", [_cell(side[name]) for side in sides]) for name in sides[0]]
    found = []
    for cells, group in groupby(rows, key=lambda row: row[1]):
        names = [name for name, _ in group]
        found.append([names[0] if len(names) == 1 else f"{names[0]}\nto {names[-1]}", *cells])
    return found


def _cell(distance: Distance) -> str:
    if not distance.finite:
        return "nan, inf or another shape"
    return "equal" if distance.equal else f"{distance.largest:.2g}, {distance.steps:,} ulp"


def _conclusion(measured: Measured, reference: Reference) -> str:
    """Whose doing it is that logits differ, in one line."""
    default, fixed = measured.default.logits, measured.fixed.logits
    grade = f" ({measured.grade})" if measured.grade else ""
    seen = f"up to {default.largest:.2g}"
    match measured.source:
        case "none":
            text = "neither the plan nor the kernels move the output"
        case "kernels":
            text = f"the plan's part is none; the kernels' part moves the output by {seen}"
        case _:
            text = f"the plan's part moves the output by up to {fixed.largest:.2g}; with the kernels' part it is {seen}"
    backward = "" if measured.fixed.backward or not measured.fixed.forward else "; gradients differ by the plan's part"
    apart = measured.blocks and reference == "unsharded" and not measured.fixed.forward
    blocks = "; sums in blocks are equal to those of the plan on one rank: `--reference tp1`" if apart else ""
    return f"tp={measured.ranks}{grade}: {text}{backward}{blocks}"


def _data(found: Numerics) -> dict[str, Any]:
    """What all commands print as JSON, and everything that was measured."""
    return {
        **json.loads(render(in_order(found.findings), "json")),
        "model": found.model,
        "twin": found.twin,
        "ok": found.ok,
        "dtype": found.dtype,
        "reference": found.reference,
        "batch": found.batch,
        "length": found.length,
        "machine": {**asdict(found.machine), "variables": dict(found.machine.variables)},
        "sizes": [
            {
                "ranks": each.ranks,
                "grade": each.grade,
                "source": each.source,
                "blocks": each.blocks,
                **{
                    side.kernels: {**asdict(side), "forward": side.forward, "backward": side.backward}
                    for side in each.sides
                },
            }
            for each in found.sizes
        ],
    }
