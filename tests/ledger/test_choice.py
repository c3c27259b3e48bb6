"""What DTensor converts to: our rules beside torch's own, on every pair of layouts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import measured
import pytest
import torch
from torch import Tensor
from torch.distributed import tensor as dtensor
from torch.distributed.tensor import DTensor

from planlang.analysis.flow import choice
from planlang.layout import Layout, Partial, Replicate, Shard

RANKS = 4
LAYOUTS: tuple[Layout, ...] = (Replicate(), Shard(0), Shard(1), Shard(2), Partial())
SHAPE = (4, 8, 16)
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
UNARY = {"silu": torch.nn.functional.silu, "neg": torch.neg, "clone": torch.clone}


def of_torch(layout: Layout) -> dtensor.Placement:
    if isinstance(layout, Shard):
        return dtensor.Shard(layout.dim)
    return dtensor.Partial() if isinstance(layout, Partial) else dtensor.Replicate()


def placed(shape: tuple[int, ...], layout: Layout) -> DTensor:
    """A tensor of ones in this layout, without any communication."""
    local = [size // RANKS if layout == Shard(dim) else size for dim, size in enumerate(shape)]
    return DTensor.from_local(torch.ones(local), measured.mesh_of(RANKS), [of_torch(layout)], run_check=False)


def run(
    operator: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...], layouts: tuple[Layout, ...]
) -> tuple[dtensor.Placement, int]:
    """The layout of the result, and how many collectives ran."""
    tensors = [placed(shape, layout) for shape, layout in zip(shapes, layouts, strict=True)]
    with measured.Sized() as mode:
        out = operator(*tensors)
    assert isinstance(out, DTensor)
    return out.placements[0], mode.tally.total()


def check(row: choice.Row, layouts: tuple[Layout, ...], found: tuple[dtensor.Placement, int]) -> None:
    out, collectives = found
    moving = [have != want and not isinstance(have, Replicate) for have, want in zip(layouts, row.ins, strict=True)]
    assert (of_torch(row.out), sum(moving)) == (out, collectives)


@pytest.mark.parametrize("layouts", list(product(LAYOUTS, LAYOUTS)), ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_two_tensors(name: str, layouts: tuple[Layout, Layout]) -> None:
    shapes = (SHAPE, SHAPE)
    check(choice.pointwise(name, layouts, shapes, RANKS), layouts, run(BINARY[name], shapes, layouts))


@pytest.mark.parametrize("layouts", [each for each in product(LAYOUTS, LAYOUTS) if each[1] != Shard(2)], ids=str)
def test_two_tensors_of_which_one_is_broadcast(layouts: tuple[Layout, Layout]) -> None:
    shapes = (SHAPE, (4, 8, 1))
    check(choice.pointwise("mul", layouts, shapes, RANKS), layouts, run(torch.mul, shapes, layouts))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_one_tensor(name: str, layout: Layout) -> None:
    check(choice.pointwise(name, (layout,), (SHAPE,), RANKS), (layout,), run(UNARY[name], (SHAPE,), (layout,)))


@pytest.mark.parametrize("layouts", list(product(LAYOUTS, (Replicate(), Shard(0), Shard(1)))), ids=str)
@pytest.mark.parametrize("wide", [16, 65536])
def test_a_linear_layer(layouts: tuple[Layout, Layout], wide: int) -> None:
    """The cheaper of the two tensors is gathered, be the weight narrow or wide."""
    shapes = (SHAPE, (wide, 16))
    row = choice.linear(layouts[0], layouts[1], shapes[0], shapes[1], RANKS)
    check(row, layouts, run(torch.nn.functional.linear, shapes, layouts))


def test_a_part_for_every_rank_is_needed() -> None:
    """A product does not run where some rank has nothing of the weight: that is gathered."""
    row = choice.linear(Replicate(), Shard(0), SHAPE, (3, 16), RANKS)
    assert row == choice.Row((Replicate(), Replicate()), Replicate())
