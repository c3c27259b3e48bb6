"""How tensors, layouts and modules are written in findings."""

from __future__ import annotations

from collections.abc import Iterable

from planlang.analysis.flow.state import Tensor
from planlang.layout import Partial, Shard

_TORCH = ("torch.nn.functional.", "torch.Tensor.", "torch.")


def tensor_text(tensor: Tensor, axis: str, batch: int, length: int) -> str:
    """A tensor as `DTensor[B, S, 4096@tp]`: its global shape, and behind the `@` the axis that cuts a dimension.

    `B` and `S` stand for the batch and the length where a leading dimension is as long.
    """
    dims = []
    for dim, size in enumerate(tensor.shape):
        name = "B" if dim == 0 and size == batch else "S" if 0 < dim < 3 and size == length else str(size)
        cut = isinstance(tensor.truth, Shard) and tensor.truth.dim == dim
        dims.append(f"{name}@{axis}" if cut else name)
    kind = "tensor" if tensor.plain else "DTensor"
    text = f"{kind}[{', '.join(dims)}]"
    if isinstance(tensor.truth, Partial):
        text += f", a partial {tensor.truth.op} over `{axis}`"
    if tensor.claim is not None and not tensor.honest:
        text += f", which claims to be {tensor.claim}"
    return text


def operator_text(name: str) -> str:
    """An operator by the name that a person calls it: `view`, `linear`, `add`."""
    for prefix in _TORCH:
        if name.startswith(prefix):
            return name.removeprefix(prefix).strip("_")
    return name.strip("_")


def star(module: str) -> str:
    """A module's name with `*` for every number."""
    return ".".join("*" if part.isdecimal() else part for part in module.split("."))


def module_text(module: str, layers: Iterable[str]) -> str:
    """A module in back-ticks; where it stands in several layers, their pattern and their number."""
    count = len(set(layers))
    if not module:
        return "the model"
    if count < 2:
        return f"`{module}`"
    return f"`{star(module)}` ({count} layers)"
