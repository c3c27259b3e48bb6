"""`planlang show` as a whole process, beside importing torch and transformers' Qwen3."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import in_turn, report

SHOW = ["-m", "planlang", "show", "plans/qwen_stable.plan", "--model", "Qwen/Qwen3-32B", "--tp", "8"]
IMPORT = ["-c", "import torch; from transformers.models.qwen3 import modeling_qwen3"]
NO_TORCH = (
    "import sys; from planlang.cli.main import run; code = run(sys.argv[1:]); "
    "assert not {'torch', 'transformers'} & sys.modules.keys(); sys.exit(code)"
)


def run(*arguments: str) -> None:
    """Runs Python with its output thrown away."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Prints the ratio, after making sure that no torch is imported."""
    run("-c", NO_TORCH, *SHOW[2:])
    report("planlang show / importing torch and Qwen3", in_turn(lambda: run(*SHOW), lambda: run(*IMPORT)), 0.1)


if __name__ == "__main__":
    main()
