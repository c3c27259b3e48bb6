"""`FixedShapes`: inside, kernels are called with shapes that do not depend on how a tensor is cut into ranks' parts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from planlang.runtime.numerics import pieces
from planlang.runtime.numerics.tiles import product, steady

aten = torch.ops.aten
# Elementwise operators whose every element is rounded correctly, whichever instruction computes it, or only moved.
_EXACT = {
    "abs",
    "add",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "copy",
    "div",
    "eq",
    "fill",
    "floor",
    "ge",
    "gt",
    "isinf",
    "isnan",
    "le",
    "logical_and",
    "logical_not",
    "logical_or",
    "lt",
    "masked_fill",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "neg",
    "reciprocal",
    "relu",
    "round",
    "rsub",
    "sign",
    "sqrt",
    "sub",
    "threshold_backward",
    "trunc",
    "where",
    "zero",
}
# Sums that are not taken apart here. A plan of which a model computes one is measured with what the kernels make of it.
_SUMS_OF_PRODUCTS = ("convolution", "conv", "grouped_mm", "attention", "linear", "einsum", "addbmm", "scaled_mm")


class FixedShapes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, products are computed in tiles, elementwise functions in whole vectors and attention head by head.

    It works on plain tensors alone: a mode for several ranks that is entered after it hands it the tensors of every
    rank, in the backward pass too. So a rank computes the bits that one device computes at that place. A single
    thread computes everything: where threads cut a tensor depends on its size, and small products wait for them.

    Attributes:
        left: operators with sums of products that were computed as the kernels do.
        unsteady: sizes of products whose tiles are not as independent of each other as they should be.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.left: set[str] = set()
        self.unsteady: set[str] = set()
        self._known: set[tuple[torch.dtype, int]] = set()
        self._threads = 1

    def __enter__(self) -> FixedShapes:
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        torch.set_num_threads(self._threads)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(each is not Tensor and each is not torch.nn.Parameter for each in types):
            return NotImplemented
        first = next((each for each in args if isinstance(each, Tensor)), None)
        if first is None or not first.is_floating_point():
            return func(*args, **kwargs)
        return self._computed(func, args, kwargs)

    def _computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        match func:
            case aten.mm.default:
                return self._product(*args)
            case aten.addmm.default:
                return self._product(args[1], args[2], args[0], **kwargs)
            case aten.mv.default:
                return self._product(args[0], args[1].unsqueeze(1)).squeeze(1)
            case aten.bmm.default:
                return self._products(*args)
            case aten.baddbmm.default:
                return self._products(args[1], args[2], args[0], **kwargs)
            case aten._scaled_dot_product_flash_attention_for_cpu.default:
                return pieces.attention(func, args[:3], (args[3:], kwargs))
            case aten._scaled_dot_product_flash_attention_for_cpu_backward.default:
                return pieces.attention(func, args[:6], (args[6:], kwargs))
            case aten.sum.dim_IntList | aten.mean.dim:
                function = torch.sum if func is aten.sum.dim_IntList else torch.mean
                return pieces.reduced(function, args[0], args[1] or (), len(args) > 2 and args[2], **kwargs)
        name = func.overloadpacket.__name__
        if torch.Tag.pointwise in func.tags and not _exact(name.rstrip("_"), kwargs):
            return self._elementwise(func, name, args, kwargs)
        if any(each in name for each in _SUMS_OF_PRODUCTS):
            self.left.add(name)
        return func(*args, **kwargs)

    def _elementwise(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        tensors = any(isinstance(each, Tensor) for each in kwargs.values())
        if tensors or [str(each.type) for each in func._schema.returns] != ["Tensor"]:
            return func(*args, **kwargs)
        if not name.endswith("_"):
            return pieces.elementwise(func, args, kwargs)
        packet = getattr(aten, name.removesuffix("_"), None)
        if packet is None or func._overloadname not in packet.overloads():
            return func(*args, **kwargs)
        return args[0].copy_(pieces.elementwise(getattr(packet, func._overloadname), args, kwargs))

    def _product(self, left: Tensor, right: Tensor, bias: Tensor | None = None, **scales: float) -> Tensor:
        key = (left.dtype, left.shape[1])
        if key not in self._known:
            self._known.add(key)
            if not steady(*key):
                self.unsteady.add(f"{key[1]} terms in {str(key[0]).removeprefix('torch.')}")
        return product(left, right, bias, **scales)

    def _products(self, lefts: Tensor, rights: Tensor, biases: Tensor | None = None, **scales: float) -> Tensor:
        if not len(lefts):
            return lefts.new_zeros(0, lefts.shape[1], rights.shape[2])
        shape = (len(lefts), lefts.shape[1], rights.shape[2])
        each = [None] * len(lefts) if biases is None else biases.expand(shape)
        return torch.stack([self._product(a, b, c, **scales) for a, b, c in zip(lefts, rights, each, strict=True)])


def _exact(name: str, kwargs: Any) -> bool:
    return name in _EXACT and kwargs.get("alpha", 1) == 1
