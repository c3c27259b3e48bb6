"""How far one tensor is from another: bits, differences, and steps between neighbouring numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

_INTEGERS = {
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
_AT_ONCE = 2**22  # elements; whole weights of real models would need many times their own memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far a tensor is from the one that it is held against, on the rank where it is farthest.

    Attributes:
        equal: whether all bits are equal, the sign of zeros too. Never where a number is nan or infinite, or the
            shapes differ.
        finite: whether all numbers of both are numbers, and the shapes are equal; else nothing below is known.
        changed: the share of elements whose bits differ.
        largest: the largest absolute difference.
        mean: the mean absolute difference.
        steps: the largest difference in ulp: how many numbers of the type lie between, and one.
        mean_steps: the mean difference in ulp.
    """

    equal: bool
    finite: bool = True
    changed: float = 0.0
    largest: float = 0.0
    mean: float = 0.0
    steps: int = 0
    mean_steps: float = 0.0


SAME = Distance(equal=True)
UNKNOWN = Distance(equal=False, finite=False, changed=1.0)


def distance(got: Tensor, right: Tensor) -> Distance:
    """How far `got` is from `right`, two tensors of one floating-point type."""
    if got.shape != right.shape or got.dtype != right.dtype:
        return UNKNOWN
    count = got.numel()
    differ, steps, total, apart, largest = 0, 0, 0.0, 0.0, 0.0
    chunks = zip(*(torch.split(each.reshape(-1), _AT_ONCE) for each in (got, right)), strict=True)
    for one, other in chunks:
        if not bool(torch.isfinite(one).all()) or not bool(torch.isfinite(other).all()):
            return UNKNOWN
        bits = _INTEGERS[got.dtype]
        other_bits = one.view(bits) != other.view(bits)
        if not bool(other_bits.any()):
            continue
        one, other = one[other_bits], other[other_bits]  # what is equal adds nothing to any sum
        differ += len(one)
        difference, between = (one.double() - other.double()).abs(), ulps(one, other)
        apart, largest = apart + float(difference.sum()), max(largest, float(difference.max()))
        total, steps = total + float(between.double().sum()), max(steps, int(between.max()))
    if not differ:
        return SAME
    return Distance(
        equal=False,
        changed=differ / count,
        largest=largest,
        mean=apart / count,
        steps=steps,
        mean_steps=total / count,
    )


def farthest(got: Iterable[Tensor], right: Tensor) -> Distance:
    """The distance of that rank's tensor which is farthest from `right`.

    Args:
        got: one tensor a rank.
        right: what each should be.
    """
    found = [distance(each, right) for each in distinct(got)]
    if not found:
        return UNKNOWN
    return max(found, key=lambda each: (not each.finite, not each.equal, each.steps, each.largest, each.changed))


def distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Those of the ranks' copies that have bits of their own."""
    found: list[Tensor] = []
    for each in tensors:
        if not any(_same_bits(each, other) for other in found):
            found.append(each)
    return found


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    integers = _INTEGERS[one.dtype]
    return torch.equal(one.contiguous().view(integers), other.contiguous().view(integers))


def ulps(one: Tensor, other: Tensor) -> Tensor:
    """How many steps from one number to the next lead from one tensor to the other, elementwise, as int64.

    The numbers of a floating-point type are counted in their order, through zero, of which -0.0 and 0.0 are one. Of
    float64 the count ends at the largest int64.
    """
    first, second = _ordered(one), _ordered(other)
    apart = first - second
    # Of opposite signs and far apart, as float64 can be, the difference does not fit into int64.
    over = ((first < 0) != (second < 0)) & ((apart < 0) == (second < 0))
    most = torch.iinfo(torch.int64).max
    return torch.where(over, torch.full_like(apart, most), apart.abs())


def _ordered(tensor: Tensor) -> Tensor:
    """Integers that have the order of the numbers, and 0 for both zeros; int64."""
    integers = _INTEGERS[tensor.dtype]
    bits = tensor.detach().contiguous().view(integers).to(torch.int64)
    return torch.where(bits < 0, torch.iinfo(integers).min - bits, bits)
