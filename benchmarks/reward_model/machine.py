"""Where a benchmark runs, in words."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch
import transformers

from benchmarks.reward_model.results import Machine

_WIDE = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def machine(command: str) -> Machine:
    """This machine, for a command."""
    return Machine(
        command=command,
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        isa=os.environ.get("ONEDNN_MAX_CPU_ISA", "default"),
        torch=torch.__version__,
        transformers=transformers.__version__,
    )


def _cpu() -> str:
    """The processor's name and its wide instructions, as Linux tells them; the architecture elsewhere."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or platform.machine()
    lines = (line.partition(":") for line in path.read_text(encoding="utf-8").splitlines())
    facts = {name.strip(): value.strip() for name, _, value in lines}
    flags = set(facts.get("flags", "").split())
    wide = [name for name in _WIDE if name in flags]
    return f"{facts.get('model name', platform.machine())} ({', '.join(wide) or 'no wide instructions'})"
