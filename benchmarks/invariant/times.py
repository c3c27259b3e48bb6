"""How long a layer takes under the invariant styles, in turn with torch's own."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.invariant.layer import DEGREES, TOKENS, one_layer, one_of
from benchmarks.invariant.models import DTYPES, MODELS, invariant, plain
from benchmarks.timing import in_turn

HEAD = ("model", "type", "tp", "invariant", "torch's styles", f"ratio, {TOKENS[0]} x {TOKENS[1]} tokens")


def rows(name: str, dtype: str, runs: int = 7) -> Iterator[str]:
    """A row of the table for each number of ranks."""
    for tp in DEGREES:
        with one_of(tp) as mesh:
            ours, theirs = (one_layer(MODELS[name], DTYPES[dtype], mesh, styles) for styles in (invariant, plain))
            pairs = in_turn(ours, theirs, runs)
        medians = [statistics.median(seconds) * 1e3 for seconds in (pairs.ours, pairs.theirs)]
        yield f"| {name} | {dtype} | {tp} | {medians[0]:.0f} ms | {medians[1]:.0f} ms | {pairs.ratio:.2f} |"
