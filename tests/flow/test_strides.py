"""What torch reshapes after a conversion of uneven parts, against DTensors on simulated ranks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

from planlang.analysis.flow import strides
from planlang.analysis.flow.conflict import Conflict
from planlang.analysis.flow.state import Tensor
from planlang.layout import Layout, Partial, Shard
from planlang.runtime.simulate import local
from planlang.runtime.styles import placement

SHAPES = ((3, 10, 4), (4, 6, 5), (2, 1, 8), (1, 5, 4), (3, 5, 4, 2), (5, 3, 6, 3))


def conversions(dims: int) -> Iterator[tuple[Layout, Layout]]:
    for dim in range(dims):
        yield Partial(), Shard(dim)
        yield from ((Shard(dim), Shard(other)) for other in range(dims) if other != dim)


def reshapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for first in range(len(shape)):
        for last in range(first + 1, len(shape)):
            yield (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])
    yield (*shape, 1)


def taken(
    operator: str, layout: Layout, shape: tuple[int, ...], target: Layout, after: tuple[int, ...], tp: int
) -> bool:
    gaps = strides.left_by(layout, target, shape, tp)
    try:
        tensor = Tensor(shape, target, target, tp)
        if operator == "linear":
            strides.check_linear(tensor, target, gaps)
        else:
            strides.check_reshape(operator, tensor, target, gaps, after)
    except Conflict:
        return False
    return True


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_reshape_is_refused_where_torch_refuses_it(shape: tuple[int, ...], tp: int) -> None:
    whole = torch.arange(prod(shape), dtype=torch.float64).reshape(shape)
    gapped = 0
    with local.ranks(tp) as mesh:
        for source, target in conversions(len(shape)):
            x: DTensor
            if isinstance(source, Partial):
                x = DTensor.from_local(local.copies(whole, tp), mesh, [placement(source)], run_check=False)
            else:
                x = distribute_tensor(whole, mesh, [placement(source)])
            y = x.redistribute(placements=[placement(target)])
            gapped += bool(strides.left_by(source, target, shape, tp))
            for after in reshapes(shape):
                try:
                    y.view(after)
                    went = True
                except RuntimeError:
                    went = False
                assert taken("torch.Tensor.view", source, shape, target, after, tp) == went, (source, target, after)
    assert gapped or all(size % tp == 0 for size in shape)


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_linear_layer_is_refused_where_torch_refuses_it(shape: tuple[int, ...], tp: int) -> None:
    whole = torch.ones(shape, dtype=torch.float64)
    with local.ranks(tp) as mesh:
        weight = distribute_tensor(torch.ones(4, shape[-1], dtype=torch.float64), mesh, [placement(Shard(0))])
        for source, target in conversions(len(shape)):
            if isinstance(source, Partial):
                continue
            y = distribute_tensor(whole, mesh, [placement(source)]).redistribute(placements=[placement(target)])
            try:
                nn.functional.linear(y, weight)
                went = True
            except RuntimeError:
                went = False
            assert taken("linear", source, shape, target, (), tp) == went, (source, target)
