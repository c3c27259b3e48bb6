"""planlang: a small declarative language for tensor-parallel plans, and its compiler.

    plan = planlang.load("qwen_stable.plan")
    planlang.parallelize(model, mesh, plan)

Importing this package imports neither torch nor transformers; what needs them does so when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from planlang.version import __version__

if TYPE_CHECKING:
    from planlang.api import clip_grad_norm_, compile, load, load_config, loads, parallelize
    from planlang.checker import Report, check
    from planlang.diagnostics.finding import Finding, PlanError
    from planlang.loaded import Plan
    from planlang.measurer import numerics
    from planlang.runtime.invariant import (
        InvariantAttention,
        InvariantColwiseParallel,
        InvariantRowwiseParallel,
        InvariantSequenceParallel,
    )
    from planlang.runtime.numerics.report import Numerics
    from planlang.runtime.replicate import ReplicateParallel
    from planlang.verifier import Verified, verify

__all__ = [
    "Finding",
    "InvariantAttention",
    "InvariantColwiseParallel",
    "InvariantRowwiseParallel",
    "InvariantSequenceParallel",
    "Numerics",
    "Plan",
    "PlanError",
    "ReplicateParallel",
    "Report",
    "Verified",
    "__version__",
    "check",
    "clip_grad_norm_",
    "compile",
    "load",
    "load_config",
    "loads",
    "numerics",
    "parallelize",
    "verify",
]

_HOMES = {
    "Plan": "planlang.loaded",
    "Report": "planlang.checker",
    "check": "planlang.checker",
    "Finding": "planlang.diagnostics.finding",
    "PlanError": "planlang.diagnostics.finding",
    "InvariantAttention": "planlang.runtime.invariant",
    "InvariantColwiseParallel": "planlang.runtime.invariant",
    "InvariantRowwiseParallel": "planlang.runtime.invariant",
    "InvariantSequenceParallel": "planlang.runtime.invariant",
    "Numerics": "planlang.runtime.numerics.report",
    "numerics": "planlang.measurer",
    "ReplicateParallel": "planlang.runtime.replicate",
    "Verified": "planlang.verifier",
    "verify": "planlang.verifier",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "planlang.api")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
