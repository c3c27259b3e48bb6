"""What computed the numbers: the same plan has other bits on another machine, or with another library."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

_VARIABLES = ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_CBWR")  # they choose kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where and with what numbers were computed.

    Attributes:
        torch: its version.
        threads: how many compute one operator; products in tiles are computed by one.
        capability: the vector instructions of torch's own kernels.
        matrices: whether the processor has units for matrices (AMX), which oneDNN uses for bfloat16.
        variables: environment variables that choose kernels, with their values.
    """

    torch: str
    threads: int
    capability: str
    matrices: bool
    variables: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        amx = ", AMX" if self.matrices else ""
        named = "".join(f", {name}={value}" for name, value in self.variables)
        return f"torch {self.torch}, CPU {self.capability}{amx}, {threads}{named}"


def machine() -> Machine:
    """This process's."""
    has_matrices = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return Machine(
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        capability=torch.backends.cpu.get_cpu_capability(),
        matrices=bool(has_matrices and has_matrices()),
        variables=tuple((name, os.environ[name]) for name in _VARIABLES if name in os.environ),
    )
