"""`planlang verify` on three numbers of ranks, beside the bare import of torch and of transformers' Qwen3.

Both sides are whole processes, run in turn. What `verify` runs: eight circumstances on 2, 4 and 8 ranks, each held
against one device, logits, gradients and weights after a step.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from benchmarks.timing import in_turn, report

AIM = 3.0  # times the import
IMPORT = ("-c", "import torch, transformers.models.qwen3.modeling_qwen3")
VERIFY = ("-m", "planlang", "verify", "plans/qwen_stable.plan", "--model", "Qwen/Qwen3-8B", "--tp", "2,4,8")


def main() -> None:
    """Prints the ratio, and how many cores there were for it."""
    cores = len(os.sched_getaffinity(0))
    pairs = in_turn(partial(_run, *VERIFY), partial(_run, *IMPORT))
    report(f"planlang verify / import of torch and Qwen3, on {cores} cores", pairs, AIM)


def _run(*arguments: str) -> None:
    """Runs Python with its output thrown away."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
