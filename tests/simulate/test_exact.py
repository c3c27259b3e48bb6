"""Float64 that a model's code would leave: kept inside, and torch's functions are as they were behind it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from planlang.runtime.simulate.exact import float64_kept


def test_float64_stays_and_all_else_is_as_ever() -> None:
    before = (Tensor.to, Tensor.float, functional.softmax)
    wide, narrow, whole = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.bfloat16), torch.arange(3)
    with float64_kept():
        for kept in (
            wide.to(torch.float32),
            wide.to(dtype=torch.float32),
            wide.float(),
            functional.softmax(wide, dim=0, dtype=torch.float32),
        ):
            assert kept.dtype is torch.float64
        assert narrow.to(torch.float32).dtype is whole.float().dtype is torch.float32
        assert wide.to(torch.bfloat16).dtype is torch.bfloat16
    assert (Tensor.to, Tensor.float, functional.softmax) == before
    assert wide.float().dtype is torch.float32
    with float64_kept(wanted=False):
        assert wide.float().dtype is torch.float32
