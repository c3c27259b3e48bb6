"""How far tensors are apart, on values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from planlang.runtime.numerics.distance import SAME, distance, farthest, ulps

TYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", TYPES)
def test_ulps_count_neighbours(dtype: torch.dtype) -> None:
    values = torch.tensor([1.0, -1.0, 0.0, 1e-3, 3.5], dtype=dtype)
    up = torch.nextafter(values, torch.full_like(values, math.inf))
    assert ulps(up, values).tolist() == [1] * 5
    assert ulps(torch.nextafter(up, torch.full_like(values, math.inf)), values).tolist() == [2] * 5


@pytest.mark.parametrize("dtype", TYPES)
def test_ulps_go_through_zero(dtype: torch.dtype) -> None:
    zero = torch.zeros(1, dtype=dtype)
    least = torch.nextafter(zero, torch.ones_like(zero))
    assert ulps(least, -least).tolist() == [2]
    assert ulps(zero, -zero).tolist() == [0]
    assert ulps(least, -zero).tolist() == [1]


def test_ulps_of_known_numbers() -> None:
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    assert ulps(two, one).item() == 2**23
    assert ulps(two.bfloat16(), one.bfloat16()).item() == 2**7
    assert ulps(one, -one).item() == 2 * 0x3F800000
    far = torch.tensor([1e308], dtype=torch.float64)
    assert ulps(far, -far).item() == torch.iinfo(torch.int64).max  # and no overflow


def test_equal_bits() -> None:
    values = torch.randn(5, 7)
    assert distance(values.clone(), values) == SAME
    assert distance(values.t(), values.t().contiguous()) == SAME


def test_figures() -> None:
    right = torch.tensor([1.0, 2.0, 4.0, 8.0])
    found = distance(torch.tensor([1.0, 2.0, 4.0, 8.5]), right)
    assert (found.equal, found.finite, found.changed) == (False, True, 0.25)
    assert (found.largest, found.mean) == (0.5, 0.125)
    assert (found.steps, found.mean_steps) == (2**19, 2**17)  # 8.5 - 8 = 2**-1, and a step at 8 is 2**-20


def test_zeros_of_two_signs_have_other_bits() -> None:
    found = distance(torch.tensor([-0.0, 1.0]), torch.tensor([0.0, 1.0]))
    assert (found.equal, found.finite, found.changed, found.largest, found.steps) == (False, True, 0.5, 0.0, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_equal(bad: float) -> None:
    tensor = torch.tensor([1.0, bad])
    for one, other in ((tensor, tensor.clone()), (tensor, torch.ones(2)), (torch.ones(2), tensor)):
        found = distance(one, other)
        assert not found.equal
        assert not found.finite


def test_other_shapes_are_not_equal() -> None:
    assert not distance(torch.ones(2), torch.ones(1, 2)).equal
    assert not farthest([], torch.ones(2)).equal


def test_the_farthest_rank_counts() -> None:
    right = torch.ones(3)
    assert farthest([right.clone(), right + 1, right], right).largest == 1
    assert not farthest([right, right * math.nan, right + 9], right).finite
    assert farthest([right, right.clone()], right).equal


def test_chunks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    right, got = torch.randn(50), torch.randn(50)
    whole = distance(got, right)
    monkeypatch.setattr("planlang.runtime.numerics.distance._AT_ONCE", 7)
    parts = distance(got, right)
    assert (parts.steps, parts.largest, parts.changed) == (whole.steps, whole.largest, whole.changed)
    assert parts.mean == pytest.approx(whole.mean)
    assert parts.mean_steps == pytest.approx(whole.mean_steps)
