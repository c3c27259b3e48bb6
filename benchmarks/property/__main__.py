"""`python -m benchmarks.property RUNS.jsonl SAID.jsonl`: what `check` says of plans that were run, and how it agrees.

Two things are demanded. What `check` finds clean is right in all circumstances; what fails for single tokens alone,
which `check` warns of, is right in all others. And of a plan that fails, `check` has an error, at a rule that is
responsible (`blame.py`). The exit status says whether the first holds, and whether no wrong plan is without an error.

Started again, it goes on where it ended; SAID.jsonl has what was said of each plan.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.property.blame import Where, blame
from benchmarks.property.drawn import Drawn
from benchmarks.property.judged import Judged, judged
from benchmarks.truth.__main__ import known

FATES = ("right", "gradient", "forward", "crash")
VERDICTS = ("clean", "lone", "unknown", "error")
PLACES = ("at it", "beside it", "elsewhere")


def fate(row: Mapping[str, Any]) -> str:
    """What became of a plan; `lone ...` where it fails for single tokens alone."""
    verdict: str = row["verdict"]
    lone = verdict != "right" and row["circumstance"]["length"] == 1 and _others_right(row)
    return f"lone {verdict}" if lone else verdict


def _others_right(row: Mapping[str, Any]) -> bool:
    """The circumstances before the one of length 1 were right, and `Drawn.cases` has it third."""
    return bool(row["run"] == 3)


def agrees(fate: str, verdict: str) -> bool:
    """Whether an answer of `check` is what it promises."""
    match verdict:
        case "clean":
            return fate == "right"
        case "lone":
            return fate == "right" or fate.startswith("lone")
        case "unknown":
            return True
        case _:
            return fate != "right"


def said_of(row: Mapping[str, Any], *, places: bool = True) -> dict[str, Any]:
    """What `check` says of a plan, as plain data; without `places` no more than whether there is an error."""
    said = judged(Drawn.from_dict(row), places=places)
    found = {"id": row["id"], "verdict": said.verdict, "codes": said.codes, "texts": said.texts}
    return {**found, "placed": sorted(said.placed), "named": sorted(said.named)} if places else found


def placed(drawn: Drawn, said: Mapping[str, Any], smallest: Collection[str] = ()) -> Where:
    """Where the errors of a plan stand, by what `said_of` found; see `blame`."""
    return blame(drawn, Judged(said["verdict"], (), frozenset(said["placed"]), frozenset(said["named"])), smallest)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, but for a last one that was cut off."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def report(
    runs: Iterable[Mapping[str, Any]], said: Mapping[str, Mapping[str, Any]], parts: Mapping[str, list[str]]
) -> bool:
    """Prints tables and disagreements; whether there are none that count."""
    table: Counter[tuple[str, str]] = Counter()
    places: Counter[tuple[str, str]] = Counter()
    wrong: list[dict[str, Any]] = []
    alarms: list[dict[str, Any]] = []
    for row in runs:
        drawn, found, is_ = Drawn.from_dict(row), said[row["id"]], fate(row)
        table[is_, found["verdict"]] += 1
        if not agrees(is_, found["verdict"]):
            (alarms if is_ == "right" else wrong).append({**row, "said": found})
        known_mistake = bool(drawn.edited or row["id"] in parts)
        if found["verdict"] == "error" and is_ != "right" and known_mistake and "placed" in found:
            where = placed(drawn, found, parts.get(row["id"], ()))
            places[drawn.kind if drawn.edited else "smallest part", where] += 1
            if where == "elsewhere":
                print(json.dumps({**row, "said": found, "where": where}))
    for disagreement in (*wrong, *alarms):
        print(json.dumps(disagreement))
    print(f"\n{table.total()} plans, torch {torch.__version__}, transformers {transformers.__version__}")
    print(f"{'':<16}" + "".join(f"{verdict:>10}" for verdict in VERDICTS))
    for each in (*FATES, *(f"lone {name}" for name in FATES[1:])):
        print(f"{each:<16}" + "".join(f"{table[each, verdict]:>10}" for verdict in VERDICTS))
    print(f"\n{'errors placed':<16}" + "".join(f"{place:>12}" for place in PLACES))
    for kind in dict.fromkeys(kind for kind, _ in places):
        print(f"{kind:<16}" + "".join(f"{places[kind, place]:>12}" for place in PLACES))
    print(f"\n{len(wrong)} wrong plans without an error, {len(alarms)} right plans with one")
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.property", description=__doc__)
    parser.add_argument("runs", type=Path, help="what `benchmarks.property.run` wrote")
    parser.add_argument("said", type=Path, help="JSON lines, one a plan")
    parser.add_argument("--places", type=int, default=10**6, help="of how many plans errors are placed: 0.2 s each")
    parser.add_argument("--smallest", type=Path, help="what `benchmarks.property.smallest` wrote")
    arguments = parser.parse_args()
    runs, done = read(arguments.runs), known(arguments.said)
    with arguments.said.open("a") as file:
        for number, row in enumerate(runs):
            if row["id"] not in done:
                file.write(json.dumps(said_of(row, places=number < arguments.places)) + "\n")
                file.flush()
    said = {each["id"]: each for each in read(arguments.said)}
    parts = {each["id"]: each["smallest"] for each in read(arguments.smallest)} if arguments.smallest else {}
    sys.exit(not report(runs, said, parts))


if __name__ == "__main__":
    main()
