"""The bundled plans as torch's styles: `planlang.plans.qwen_stable` is a new dict at every access.

A consumer that resolves `pkg.mod.attr` by import and `getattr` (NeMo-RL's `custom_parallel_plan`, Automodel's
`tp_plan`) takes `planlang.plans.qwen_stable` as it is, and may change the classes of the styles in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planlang import resources

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle


def __getattr__(name: str) -> dict[str, ParallelStyle]:
    path = resources.bundled_plans().get(name)
    if path is None:
        raise AttributeError(f"there is no bundled plan {name!r}; there are {', '.join(resources.bundled_plans())}")
    from planlang.api import load

    return load(path).styles()


def __dir__() -> list[str]:
    return list(resources.bundled_plans())
