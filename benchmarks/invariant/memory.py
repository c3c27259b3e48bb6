"""How many bytes the tensors of a layer take at once under the invariant styles, and under torch's own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.invariant.layer import DEGREES, one_layer, one_of
from benchmarks.invariant.models import DTYPES, MODELS, invariant, plain

MIB = 2**20
HEAD = ("model", "type", "tp", "forward: invariant", "torch's styles", "with backward: invariant", "torch's styles")


def peak(run: Callable[[], None]) -> int:
    """The most bytes that tensors on the CPU take at once while `run` runs, beyond those of before.

    torch's profiler sees each allocation of its CPU allocator; what kernels take for themselves it does not see.
    """
    run()  # what is made once is not counted
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    assert profiled.profiler is not None
    events = [each for each in profiled.profiler.kineto_results.events() if each.name() == "[memory]"]
    held = list(accumulate(each.nbytes() for each in sorted(events, key=lambda each: each.start_ns())))
    return int(max(held))


def rows(name: str, dtype: str) -> Iterator[str]:
    """A row of the table for each number of ranks, in MiB."""
    for tp in DEGREES:
        cells = []
        with one_of(tp) as mesh:
            for styles in (invariant, plain):
                run = one_layer(MODELS[name], DTYPES[dtype], mesh, styles)
                with torch.no_grad():
                    cells.append(peak(run) / MIB)
                cells.append(peak(run) / MIB)
        forward, both, plain_forward, plain_both = (f"{each:.1f}" for each in cells)
        yield f"| {name} | {dtype} | {tp} | {forward} | {plain_forward} | {both} | {plain_both} |"
