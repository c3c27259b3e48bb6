"""The tables of README.md, from the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.reward_model.counts import mcnemar
from benchmarks.reward_model.data import SETS
from benchmarks.reward_model.gate import (
    keeps_bits,
    must_be_equal,
    unequal_processes,
    unequal_scores,
    wrong_training,
)
from benchmarks.reward_model.results import Machine, Processes, Result, Scored, Stepped, Trained, latest

BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def write(results: Sequence[Result], page: Path) -> None:
    """Puts the tables between the two marks of a page, or into a new file."""
    text = page.read_text(encoding="utf-8") if page.exists() else BEGIN + END
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + BEGIN + tables(results) + END + after, encoding="utf-8")


def tables(results: Sequence[Result]) -> str:
    """All tables as Markdown; those of which nothing was measured are left out."""
    scored = latest(results, Scored)
    types = dict.fromkeys(each.dtype for each in scored)
    parts = [
        _machines(latest(results, Machine)),
        _models(latest(results, Trained), scored),
        *(_scores(dtype, [each for each in scored if each.dtype == dtype]) for dtype in types),
        _bits(scored),
        _processes(latest(results, Processes), scored),
        _steps(latest(results, Stepped)),
    ]
    return "\n" + "\n".join(part for part in parts if part) + "\n"


def _machines(machines: Sequence[Machine]) -> str:
    def place(each: Machine) -> str:
        held = "as it comes" if each.isa == "default" else f"held to {each.isa}"
        return (
            f"{each.cpu}, {each.cores} cores, {each.threads} thread{'s' * (each.threads > 1)}, oneDNN {held}, "
            f"torch {each.torch}, transformers {each.transformers}"
        )

    blocks = [
        f"On {where}:\n\n```sh\n{''.join(each.command + chr(10) for each in own)}```\n"
        for where, own in groupby(machines, place)
    ]
    return "\n".join(blocks)


def _models(trained: Sequence[Trained], scored: Sequence[Scored]) -> str:
    rows: list[list[str]] = []
    for each in trained:
        own = [row for row in scored if row.weights == each.weights and row.plan == "none"]
        right = [
            " / ".join(f"{100 * row.correct / row.pairs:.1f}" for row in own if (row.dtype, row.set) == (dtype, name))
            for dtype in dict.fromkeys(row.dtype for row in own)
            for name in SETS
        ]
        facts = [str(each.seed), f"{each.parameters:,}", str(each.steps), f"{each.loss:.3f}", each.weights]
        rows.append([*facts, ", ".join(right) or "not scored"])
    head = ["seed", "parameters", "steps", "last loss", "weights", f"% right unsharded: {', '.join(SETS)}, by type"]
    return _table("The models", head, rows)


def _scores(dtype: str, scored: Sequence[Scored]) -> str:
    """A table of one type: every set, plan and degree, all seeds together."""
    order = list(dict.fromkeys(each.plan for each in scored))
    keyed = sorted(scored, key=lambda each: (SETS.index(each.set), order.index(each.plan), each.tp))
    rows = [_row(list(own)) for _, own in groupby(keyed, lambda each: (each.set, each.plan, each.tp))]
    head = ["pairs", "plan", "tp", "against", "% right", "changed", "ties", "lost", "gained", "p", "least p of a seed"]
    return _table(f"Scores in {dtype}", [*head, "scores that differ", "same bits"], rows)


def _row(own: Sequence[Scored]) -> list[str]:
    """One set, plan and degree: sums over the seeds, and in brackets the least and the most of a seed."""
    first = own[0]
    pairs = sum(each.pairs for each in own)
    right = f"{100 * sum(each.correct for each in own) / pairs:.2f} {_range(100 * e.correct / e.pairs for e in own)}"
    ties = str(sum(each.ties for each in own))
    if first.plan == "none":
        return [first.set, "unsharded", "1", "", right, "", ties, *[""] * 6]
    lost, gained = sum(each.lost for each in own), sum(each.gained for each in own)
    changed = sum(each.changed for each in own)
    return [
        first.set,
        first.plan,
        str(first.tp),
        first.against,
        right,
        f"{changed}, {100 * changed / pairs:.2f} % {_range(100 * e.changed / e.pairs for e in own)}",
        ties,
        str(lost),
        str(gained),
        f"{mcnemar(lost, gained):.2g}",
        f"{min(mcnemar(each.lost, each.gained) for each in own):.2g}",
        f"{100 * sum(e.differing for e in own) / sum(e.scores for e in own):.2f} %",
        "yes" if all(each.bitwise for each in own) else "no",
    ]


def _range(shares: Iterable[float]) -> str:
    found = list(shares)
    return f"({min(found):.2f} to {max(found):.2f})"


def _bits(scored: Sequence[Scored]) -> str:
    """What the gate says of the scores."""
    if not scored:
        return ""
    said = unequal_scores(scored)
    held = [each for each in scored if must_be_equal(each)]
    plans = ", ".join(f"`{name}` ({grade})" for name, grade in dict.fromkeys((each.plan, each.grade) for each in held))
    if not said:
        return f"**The gate holds**: {plans}: {len(held)} of {len(held)} measurements have the reference's bits.\n"
    return _broken(said)


def _processes(processes: Sequence[Processes], scored: Sequence[Scored]) -> str:
    rows = [
        [each.plan, each.dtype, str(each.tp), str(each.seed), each.set, f"{each.scores:,}", f"{each.differing:,}"]
        for each in processes
    ]
    head = ["plan", "type", "processes", "seed", "pairs", "scores", "with other bits than simulated"]
    said = unequal_processes(processes, scored)
    table = _table("Real processes over gloo", head, rows)
    return f"{table}\n{_broken(said)}" if said else table


def _steps(stepped: Sequence[Stepped]) -> str:
    if not stepped:
        return ""
    types = dict.fromkeys(each.dtype for each in stepped)
    tables = [_training(dtype, [each for each in stepped if each.dtype == dtype]) for dtype in types]
    said = wrong_training(stepped)
    return "\n".join([*tables, _broken(said) if said else _kept(stepped)])


def _training(dtype: str, stepped: Sequence[Stepped]) -> str:
    """A table of one type: every training, a row for a group of weights."""
    rows = [
        [
            each.plan,
            str(each.tp),
            each.group,
            f"{each.spread:.2g}",
            f"{each.distance:.2g}",
            f"{each.worst:.2g} (`{each.worst_name.removeprefix('model.')}`)",
            f"{each.loss_first:.4f} to {each.loss_last:.4f}",
            f"{each.loss_one_process:.4f}",
            f"{each.loss_spread:.2g}",
            each.against,
            f"{each.differing:,} of {each.numbers:,}",
            f"{each.losses_differing} of {each.steps}",
        ]
        for each in stepped
    ]
    head = ["plan", "tp", "weights", "between ranks", "of the way off", "the farthest parameter"]
    head += ["loss", "of one process", "loss between ranks", "against", "weights with other bits"]
    return _table(f"{stepped[0].steps} steps of training in {dtype}", [*head, "losses with other bits"], rows)


def _kept(stepped: Sequence[Stepped]) -> str:
    """What the gate says of training where it holds."""
    held = [each for each in stepped if keeps_bits(each)]
    runs = len({(each.plan, each.dtype, each.tp, each.seed) for each in held})
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(each.plan for each in held))
    bits = f" {names} (invariant): {runs} of {runs} trainings have the bits of a mesh of one." if held else ""
    return f"**The gate holds**: ours passes, and what was published fails.{bits}\n"


def _broken(said: Sequence[str]) -> str:
    return "**The gate does not hold**:\n\n" + "".join(f"- {line}\n" for line in said)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return f"### {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
