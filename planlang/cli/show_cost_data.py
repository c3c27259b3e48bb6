"""The costs of a plan as plain data, for `planlang show --json`."""

from __future__ import annotations

from collections.abc import Iterator

from planlang.analysis.cost.ledger import PHASES, Entry, Ledger
from planlang.analysis.cost.memory import Memory
from planlang.cli.show_cost import Costs


def cost_data(costs: Costs) -> Iterator[tuple[str, object]]:
    """What was asked for as plain data, by name."""
    asked = costs.asked
    if costs.ledgers is not None:
        sizes = {"batch": asked.batch, "length": asked.length, "dtype": asked.dtype}
        yield "comm", {**sizes, "axes": [_ledger_data(ledger) for ledger in costs.ledgers]}
    if costs.reductions:
        found = costs.reductions
        yield (
            "reductions",
            {
                "grade": found.grade,
                "complete": found.complete,
                "sums": [_entry_data(entry) for entry in found.sums],
                "fixed": [_entry_data(entry) for entry in found.fixed],
                "exact": [_entry_data(entry) for entry in found.exact],
            },
        )
    if costs.memory:
        yield "memory", _memory_data(costs.memory, asked.dtype)


def _ledger_data(ledger: Ledger) -> dict[str, object]:
    totals = {
        phase: {
            kind: {"count": sums.count, "payload_bytes": sums.payload, "ring_bytes": sums.moved}
            for kind, sums in ledger.totals(phase).items()
        }
        for phase in PHASES
    }
    return {
        "axis": ledger.axis,
        "ranks": ledger.ranks,
        "complete": ledger.complete,
        "collectives": [_entry_data(entry) for entry in ledger.entries],
        "totals": totals,
    }


def _entry_data(entry: Entry) -> dict[str, object]:
    place = entry.rule.place if entry.rule else None
    return {
        "phase": entry.phase,
        "module": entry.module,
        "kind": entry.kind,
        "axis": entry.axis,
        "from": str(entry.source),
        "to": str(entry.target),
        "shape": list(entry.shape),
        "count": entry.count,
        "payload_bytes": entry.payload,
        "ring_bytes": entry.moved,
        "exact": entry.exact,
        "tree": entry.tree,
        "certain": entry.certain,
        "line": place.start[0] if place else None,
    }


def _memory_data(found: Memory, dtype: str) -> dict[str, object]:
    def of(numbers: int) -> dict[str, int]:
        parameters, gradients, state = found.bytes_of(numbers)
        return {"numbers": numbers, "parameters": parameters, "gradients": gradients, "adamw": state}

    whole = sum(each.numbers for each in found.whole)
    return {
        "dtype": dtype,
        "largest_rank": of(found.largest),
        "smallest_rank": of(found.smallest),
        "single_device": of(found.numbers),
        "whole": {"numbers": whole, "share": whole / found.numbers if found.numbers else 0.0},
        "parameters": [
            {
                "name": each.name,
                "shape": list(each.shape),
                "layout": None if each.layout is None else str(each.layout),
                "axis": each.axis,
                "kept": each.kept,
                "count": each.count,
                "numbers": each.numbers,
                "largest": each.largest,
                "smallest": each.smallest,
            }
            for each in found.held
        ],
    }
