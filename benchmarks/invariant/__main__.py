"""Bits, time and memory of the invariant styles at the widths of published models, one layer, on the CPU.

    python -m benchmarks.invariant [--models NAME ...] [--dtypes NAME ...] [--only bits|processes|time|memory]

**Bits**: logits, loss, every gradient and the weights after `--steps` steps of AdamW, on simulated ranks, against one
rank. The vocabulary is cut to 4096, the rest is as published. The last column does the same with torch's own styles.

**Processes**: the same on real gloo processes, for a few steps.

**Time**: one layer, forward and backward, in turn with torch's own styles. At tp 4 it is one rank's own work: the
processes that it would talk to are not there (`fake` process group), so nothing of it is the wire or waiting.

**Memory**: the most bytes that tensors take at once in the same layer, beyond its weights and its input, in MiB.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from benchmarks.invariant import bits, memory, processes, times
from benchmarks.invariant.models import DTYPES, MODELS

Rows = Callable[[str, str], Iterator[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Bits, time and memory of the invariant styles, on the CPU.")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--steps", type=int, default=20, help="steps of AdamW, at batch 3 and length 17")
    parser.add_argument("--only", choices=("bits", "processes", "time", "memory"))
    asked = parser.parse_args()
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"torch {torch.__version__}, {capability}, {torch.get_num_threads()} threads", flush=True)
    tables: dict[str, tuple[Sequence[str], Rows]] = {
        "bits": (bits.HEAD, partial(bits.rows, steps=asked.steps)),
        "processes": (processes.HEAD, processes.rows),
        "time": (times.HEAD, times.rows),
        "memory": (memory.HEAD, memory.rows),
    }
    for what, (head, rows) in tables.items():
        if asked.only in (None, what):
            print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
            for name in asked.models:
                for dtype in asked.dtypes:
                    for row in rows(name, dtype):
                        print(row, flush=True)


if __name__ == "__main__":
    main()
