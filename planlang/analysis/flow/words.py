"""How tensors, layouts and modules are written in findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def module_text(module: str, layers: Iterable[str], modules: Sequence[str] = ()) -> str:
    """A module in back-ticks; where it stands in several layers, their pattern and their number.

    Args:
        module: its full name.
        layers: the layers in which it stands.
        modules: it and others for which the same holds, in star form.
    """
    count = len(set(layers))
    if not module and len(modules) < 2:
        return "the model"
    patterns = together(modules or [star(module)])
    text = f"`{module}`" if len(modules) < 2 and count < 2 else and_list([f"`{each}`" for each in patterns])
    return f"{text} ({count} layers)" if count > 1 else text


def together(names: Iterable[str]) -> list[str]:
    """Names in star form as patterns: those side by side in braces, as in `mlp.{gate,up}_proj`."""
    beside: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        above, dot, own = name.rpartition(".")
        beside.setdefault(above + dot, []).append(own)
    return [above + _braced(owns) for above, owns in beside.items()]


def _braced(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    tails = {name[name.find("_") :] if "_" in name else "" for name in names}
    tail = tails.pop() if len(tails) == 1 else ""
    return "{" + ",".join(name.removesuffix(tail) for name in names) + "}" + tail


def and_list(texts: Sequence[str]) -> str:
    """`a`, `b` and `c`."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else ""
