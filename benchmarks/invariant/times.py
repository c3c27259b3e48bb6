"""How long a layer takes under the invariant styles, in turn with torch's own."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.invariant.layer import DEGREES, TOKENS, one_layer, one_of
from benchmarks.invariant.models import DTYPES, MODELS, invariant, plain, products
from benchmarks.timing import in_turn

HEAD = (
    "model",
    "type",
    "tp",
    "invariant",
    "torch's styles",
    f"ratio, {TOKENS[0]} x {TOKENS[1]} tokens",
    "of products alone",
)


def rows(name: str, dtype: str, runs: int = 7) -> Iterator[str]:
    """A row of the table for each number of ranks."""
    for tp in DEGREES:
        with one_of(tp) as mesh:
            ours, few, theirs = (
                one_layer(MODELS[name], DTYPES[dtype], mesh, styles) for styles in (invariant, products, plain)
            )
            pairs, part = in_turn(ours, theirs, runs), in_turn(few, theirs, runs).ratio
        medians = [statistics.median(seconds) * 1e3 for seconds in (pairs.ours, pairs.theirs)]
        cells = (*(f"{each:.0f} ms" for each in medians), f"{pairs.ratio:.2f}", f"{part:.2f}")
        yield f"| {name} | {dtype} | {tp} | {' | '.join(cells)} |"
