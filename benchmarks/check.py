"""`planlang check` as a whole process: beside running the model on fake tensors, and for many layers beside few.

Both sides are whole processes with their imports; the sides of a pair run in turn. For the layers, two configurations
of one architecture are checked, whose trees and graphs are in the cache as after any first check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.timing import in_turn, report

PLAN = "plans/qwen_stable.plan"
TIMES_FASTER = 30
MANY, FEW = 94, 2  # layers
NO_TORCH = (
    "import sys; from planlang.cli.main import run; code = run(sys.argv[1:]); "
    "assert not {'torch', 'transformers', 'numpy'} & sys.modules.keys(); sys.exit(code)"
)


def main() -> None:
    """Prints both ratios, after making sure that no torch is imported."""
    with tempfile.TemporaryDirectory() as folder:
        module, few, many = (Path(folder) / name for name in ("qwen_stable.py", "few.json", "many.json"))
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        run = partial(_run, environment | {"PLANLANG_CACHE_DIR": str(Path(folder) / "cache")})
        run("-m", "planlang", "compile", PLAN, "-o", str(module))
        for path, layers in ((few, FEW), (many, MANY)):
            path.write_text(json.dumps(_config(layers)), encoding="utf-8")
            run("-m", "planlang", *_check(path))  # fills the cache
        for model in ("Qwen/Qwen3-32B", few, many):
            run("-c", NO_TORCH, *_check(model))
        ours = partial(run, "-m", "planlang", *_check("Qwen/Qwen3-32B"))
        theirs = partial(run, "-m", "benchmarks.one_step", str(module))
        pairs = in_turn(ours, theirs)
        report("planlang check / one step of Qwen3-32B on fake tensors", pairs, 1 / TIMES_FASTER)
        print(f"planlang check is {1 / pairs.ratio:.0f} times faster (aim {TIMES_FASTER})")
        pairs = in_turn(
            partial(run, "-m", "planlang", *_check(many)), partial(run, "-m", "planlang", *_check(few)), runs=15
        )
        report(f"planlang check, {MANY} layers / {FEW} layers", pairs, 1.1)


def _check(model: object) -> list[str]:
    return ["check", PLAN, "--model", str(model), "--tp", "8"]


def _config(layers: int) -> dict[str, object]:
    """Qwen3-32B with another number of layers."""
    data = Path(__file__).parent.parent / "planlang" / "model" / "data" / "checkpoints.json"
    rows = json.loads(data.read_text(encoding="utf-8"))["checkpoints"]
    facts: dict[str, object] = next(row["config"] for row in rows if row["name"] == "Qwen/Qwen3-32B")
    return {**facts, "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": layers}


def _run(environment: dict[str, str], *arguments: str) -> None:
    """Runs Python with its output thrown away."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    main()
