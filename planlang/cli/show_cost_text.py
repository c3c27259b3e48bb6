"""The costs of a plan as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from planlang.analysis.cost.ledger import PHASES, Entry, Ledger, Phase
from planlang.analysis.cost.memory import Held, Memory
from planlang.analysis.cost.reductions import Reductions
from planlang.cli.show_cost import Costs
from planlang.cli.tables import print_table

_PHASES: dict[Phase, str] = {
    "forward": "forward",
    "backward": "backward",
    "deferred": "after backward (gradients that stay partial: whoever uses one has it summed)",
}
_GRADES = {
    "invariant": "invariant: no floating-point sum crosses ranks in an order that depends on how many there are",
    "forward-invariant": "forward-invariant: floating-point sums cross ranks in the backward pass alone",
    "variant": "not invariant: floating-point sums cross ranks in the forward pass",
}
_NO_SUMS = (
    "forward-invariant: no floating-point sum crosses ranks in an order that depends on how many there are,\n"
    "but kernels are given a rank's part; beside invariant rules `planlang check` says where (PLN8004)"
)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_costs(costs: Costs) -> None:
    """Prints what was asked for."""
    asked = costs.asked
    sizes = f"batch {asked.batch}, length {asked.length}, {asked.dtype}"
    for ledger in costs.ledgers or ():
        ranks = "1 rank" if ledger.ranks == 1 else f"{ledger.ranks} ranks"
        click.echo(f"collectives over `{ledger.axis}`, {ranks}, at {sizes}")
        _print_ledger(ledger)
    if costs.reductions:
        click.echo(f"floating-point sums that cross ranks, at {sizes}")
        _print_reductions(costs.reductions)
    if costs.memory:
        click.echo(f"memory of a rank: parameters and gradients in {asked.dtype}, two moments of AdamW in float32")
        _print_memory(costs.memory)


def _print_ledger(ledger: Ledger) -> None:
    headings = ("module", "collective", "layout", "a rank puts in", "bytes", "ring", "count", "ring in all")
    right = ("bytes", "ring", "count", "ring in all")
    for phase in PHASES:
        entries = [entry for entry in ledger.entries if entry.phase == phase]
        if not entries:
            if phase != "deferred":
                click.echo(f"{phase}: none")
            continue
        rows = [
            (*_named(entry), _bytes(entry.payload), _bytes(entry.moved), f"{entry.count:,}", _bytes(_all(entry)))
            for entry in entries
        ]
        for kind, sums in ledger.totals(phase).items():
            rows.append(("together", kind, "", "", "", "", f"{sums.count:,}", _bytes(sums.moved)))
        click.echo(_PHASES[phase])
        print_table(headings, rows, right=right)
    _print_doubts(ledger.entries, ledger.complete)


def _all(entry: Entry) -> int:
    return entry.count * entry.moved


def _named(entry: Entry) -> tuple[str, str, str, str]:
    kind = entry.kind if entry.certain else f"{entry.kind} ?"
    layout = f"{entry.source} -> {entry.target}"
    return entry.module or "(the model)", kind, f"{layout} (tree)" if entry.tree else layout, _shape(entry.shape)


def _print_doubts(entries: Iterable[Entry], complete: bool) -> None:
    if any(not entry.certain for entry in entries):
        click.echo("? DTensor decides by itself whether and how to convert there: this is an estimate")
    if not complete:
        click.echo("the plan is not right, as `planlang check` says: some of this may be missing, or never run")


def _print_reductions(found: Reductions) -> None:
    if found.grade:
        cut = found.grade == "forward-invariant" and not found.sums
        click.echo(_NO_SUMS if cut else _GRADES[found.grade])
    elif found.complete:
        click.echo("no grade: on one rank nothing crosses")
    headings = ("phase", "module", "collective", "layout", "shape", "count")
    kinds = (
        ("", found.sums),
        ("fixed order: the tree of an invariant style", found.fixed),
        ("order does not matter: one number is added to zeros", found.exact),
    )
    for title, entries in kinds:
        if entries:
            if title:
                click.echo(title)
            rows = [(_when(entry), *_named(entry), f"{entry.count:,}") for entry in entries]
            print_table(headings, rows, right=("count",))
    _print_doubts((*found.sums, *found.fixed, *found.exact), found.complete)


def _when(entry: Entry) -> str:
    return "after backward" if entry.phase == "deferred" else entry.phase


def _print_memory(found: Memory) -> None:
    uneven = found.largest != found.smallest
    whole = [("largest rank", found.largest), ("smallest rank", found.smallest)]
    rows = [_sums(name, numbers, found) for name, numbers in (whole if uneven else [("a rank", found.largest)])]
    rows.append(_sums("a single device", found.numbers, found))
    columns = ("numbers", "parameters", "gradients", "AdamW", "together")
    print_table(("", *columns), rows, right=columns)
    headings = ("parameter", "layout", "shape", "count", "share", "numbers on a rank", "bytes in all")
    table = [_held_row(each, found) for each in found.held]
    print_table(headings, table, right=("count", "share", "numbers on a rank", "bytes in all"))
    kept = sum(each.numbers for each in found.whole)
    click.echo(f"whole on every rank: {_share(kept, found)} of the parameters, {kept:,} numbers")


def _sums(name: str, numbers: int, found: Memory) -> Sequence[str]:
    parts = found.bytes_of(numbers)
    return (name, f"{numbers:,}", *map(_bytes, parts), _bytes(sum(parts)))


def _held_row(each: Held, found: Memory) -> Sequence[str]:
    here = f"{each.largest:,}" if each.largest == each.smallest else f"{each.smallest:,} to {each.largest:,}"
    layout = each.kept if each.layout is None else f"{each.layout} over {each.axis}"
    share = _share(each.numbers, found)
    total = _bytes(sum(found.bytes_of(each.largest)))
    return each.name, layout, _shape(each.shape), f"{each.count:,}", share, here, total


def _share(numbers: int, found: Memory) -> str:
    return f"{numbers / found.numbers:.3%}" if found.numbers else "0%"


def _shape(shape: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _bytes(count: int) -> str:
    """A number of bytes to three digits."""
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    if unit == "B":
        return f"{count} B"
    return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
