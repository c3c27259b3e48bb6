"""Styles become objects of torch's own classes, and `replicate` gets every gradient right."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

from planlang import layout as layouts
from planlang.diagnostics.codes import BAD_CUSTOM_STYLE
from planlang.diagnostics.finding import PlanError
from planlang.layout import Conversion
from planlang.plan.styles import Colwise, Custom, Prepare, Replicated, Rowwise, Sequence, Skip, Style
from planlang.runtime.styles import ReplicateParallel, build, placement
from planlang.source import Place, Source, Span

RANKS = 4
R, S1 = layouts.Replicate(), layouts.Shard(1)
TABLE: list[tuple[Style, ParallelStyle]] = [
    (Colwise(), ColwiseParallel()),
    (
        Colwise(in_=S1, out=layouts.Shard(-1), local=False),
        ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    ),
    (Colwise(out=R), ColwiseParallel(output_layouts=Replicate())),
    (Rowwise(), RowwiseParallel()),
    (Rowwise(in_=R), RowwiseParallel(input_layouts=Replicate())),
    (Rowwise(out=S1, local=False), RowwiseParallel(output_layouts=Shard(1), use_local_output=False)),
    (Rowwise(out=layouts.Partial("avg")), RowwiseParallel(output_layouts=Partial("avg"))),
    (Sequence(), SequenceParallel()),
    (Sequence(dim=2, local=True), SequenceParallel(sequence_dim=2, use_local_output=True)),
    (
        Prepare(inputs=(Conversion(S1, R), None)),
        PrepareModuleInput(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)),
    ),
    (
        Prepare(keywords=(("hidden_states", Conversion(R, R)),), local_in=True),
        PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Replicate()},
            desired_input_kwarg_layouts={"hidden_states": Replicate()},
            use_local_output=True,
        ),
    ),
    (
        Prepare(outputs=(Conversion(layouts.Partial(), S1),), local_out=False),
        PrepareModuleOutput(output_layouts=Partial(), desired_output_layouts=Shard(1), use_local_output=False),
    ),
    (
        Prepare(inputs=(Conversion(S1, R),), keywords=(("mask", Conversion(R, R)),), outputs=(None, Conversion(R, S1))),
        PrepareModuleInputOutput(
            input_layouts=Shard(1),
            desired_input_layouts=Replicate(),
            input_kwarg_layouts={"mask": Replicate()},
            desired_input_kwarg_layouts={"mask": Replicate()},
            output_layouts=(None, Replicate()),
            desired_output_layouts=(None, Shard(1)),
        ),
    ),
    (Replicated(), ReplicateParallel()),
    (Replicated(grad="none"), ReplicateParallel(grad="none")),
]


@pytest.mark.parametrize(("style", "written"), TABLE, ids=lambda value: repr(value)[:60])
def test_a_built_style_is_the_one_written_by_hand(style: Style, written: ParallelStyle) -> None:
    built = build(style)
    assert type(built) is type(written)
    assert repr(built) == repr(written)
    assert build(style) is not built


def test_skip_builds_nothing() -> None:
    assert build(Skip()) is None


@pytest.mark.parametrize("layout", [R, S1, layouts.Shard(-1), *(layouts.Partial(op) for op in layouts.REDUCE_OPS)])
def test_a_layout_is_the_placement_of_its_name(layout: layouts.Layout) -> None:
    name = {"Replicate": "is_replicate", "Shard": "is_shard", "Partial": "is_partial"}[type(layout).__name__]
    assert getattr(placement(layout), name)()
    assert getattr(placement(layout), "dim", None) == getattr(layout, "dim", None)
    assert getattr(placement(layout), "reduce_op", None) == getattr(layout, "op", None)


@pytest.fixture
def custom_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of styles that a user might have; its name."""
    (tmp_path / "styles_of_mine.py").write_text(
        "from torch.distributed.tensor.parallel import ColwiseParallel\n"
        "class Mine(ColwiseParallel):\n"
        "    def __init__(self, *, layout, scale=1):\n"
        "        super().__init__(input_layouts=layout)\n"
        "        self.scale = scale\n"
        "class Box:\n"
        "    class Inner(ColwiseParallel): pass\n"
        "not_a_style = dict\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "styles_of_mine"


def test_a_custom_style_gets_its_arguments(custom_module: str) -> None:
    built = build(Custom(path=f"{custom_module}:Mine", arguments=(("layout", S1), ("scale", 3))))
    assert repr(built).startswith("Mine(input_layouts=(Shard(dim=1),)")
    assert built.scale == 3
    assert type(build(Custom(path=f"{custom_module}:Box.Inner"))).__name__ == "Inner"


@pytest.mark.parametrize(
    ("path", "arguments", "message"),
    [
        ("no_such_module_anywhere:Mine", (), "cannot be imported"),
        ("{module}:Missing", (), "cannot be imported"),
        ("{module}:Mine", (("widht", 1),), "cannot be made"),
        ("{module}:not_a_style", (), "makes `dict`, which is no ParallelStyle"),
    ],
)
def test_a_custom_style_that_is_none_is_refused_at_its_rule(
    custom_module: str, path: str, arguments: tuple[tuple[str, int], ...], message: str
) -> None:
    place = Place(Source("my.plan", "text"), Span(0, 4))
    with pytest.raises(PlanError) as caught:
        build(Custom(path=path.format(module=custom_module), arguments=arguments), place)
    (finding,) = caught.value.findings
    assert finding.code is BAD_CUSTOM_STYLE
    assert finding.place == place
    assert message in finding.message


def test_replicate_shows_and_checks_its_argument() -> None:
    assert repr(ReplicateParallel()) == "ReplicateParallel(grad='sum')"
    with pytest.raises(ValueError, match="not 'mean'"):
        ReplicateParallel(grad="mean")  # type: ignore[arg-type]


class Norm(nn.Module):
    """RMSNorm over a head's width, with a bias in a module of its own and a frozen factor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 4, dtype=torch.float64))
        self.factor = nn.Parameter(torch.tensor([2.0], dtype=torch.float64), requires_grad=False)
        self.inner = nn.Module()
        self.inner.bias = nn.Parameter(torch.linspace(-1, 1, 4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        assert type(self.weight) is type(self.inner.bias)
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * normed * self.factor + self.inner.bias


@contextmanager
def simulated(module: nn.Module, style: ParallelStyle) -> Iterator[tuple[nn.Module, DeviceMesh]]:
    """Four ranks simulated in this process, and `module` parallel over them.

    Random numbers are drawn before: inside, each rank would draw its own.
    """
    dist.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    try:
        with LocalTensorMode(RANKS):
            mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
            yield parallelize_module(module, mesh, style), mesh
    finally:
        dist.destroy_process_group()


def one(tensor: Tensor) -> Tensor:
    """The tensor that all ranks hold; an error if they hold different ones."""
    return tensor.reconcile() if isinstance(tensor, LocalTensor) else tensor


def data(micro: int) -> list[Tensor]:
    """Inputs ``[batch, length, heads, width]`` of each micro-batch."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, 8, 4, generator=generator, dtype=torch.float64) for _ in range(micro)]


def right_gradients(inputs: list[Tensor]) -> dict[str, Tensor]:
    """The gradients on one process."""
    norm = Norm()
    for x in inputs:
        norm(x).pow(2).sum().backward()
    return {name: p.grad for name, p in norm.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("dtensor", [False, True], ids=["plain", "dtensor"])
@pytest.mark.parametrize("micro", [1, 3])
def test_gradients_of_split_heads_are_summed(micro: int, dtensor: bool, recompute: bool) -> None:
    inputs = data(micro)
    right = right_gradients(inputs)
    with simulated(Norm(), ReplicateParallel(grad="sum")) as (norm, mesh):
        for x in inputs:
            split = distribute_tensor(x, mesh, [Shard(2)])
            given = split if dtensor else split.to_local()
            out = checkpoint(norm, given, use_reentrant=False) if recompute else norm(given)
            assert isinstance(out, DTensor) == dtensor
            out.pow(2).sum().backward()
            assert all(isinstance(p, DTensor) for p in norm.parameters())
        for name, expected in right.items():
            gradient = norm.get_parameter(name).grad
            assert dtensor or gradient.placements == (Replicate(),)
            torch.testing.assert_close(one(gradient.full_tensor()), expected, rtol=1e-12, atol=1e-12)
        assert not norm.factor.requires_grad
        assert norm.factor.grad is None


@pytest.mark.parametrize("micro", [1, 3])
def test_whole_gradients_are_left_as_they_are(micro: int) -> None:
    inputs = data(micro)
    right = right_gradients(inputs)
    with simulated(Norm(), ReplicateParallel(grad="none")) as (norm, mesh):
        for x in inputs:
            norm(distribute_tensor(x, mesh, [Replicate()]).to_local()).pow(2).sum().backward()
        for name, expected in right.items():
            gradient = norm.get_parameter(name).grad
            assert gradient.placements == (Replicate(),)
            torch.testing.assert_close(one(gradient.to_local()), expected, rtol=1e-12, atol=1e-12)


def test_a_copy_of_the_module_computes_with_its_own_parameters() -> None:
    with simulated(Norm(), ReplicateParallel(grad="none")) as (norm, mesh):
        other = copy.deepcopy(norm)
        x = distribute_tensor(torch.ones(1, 1, 1, 4, dtype=torch.float64), mesh, [Replicate()]).to_local()
        other(x).sum().backward()
        assert other.weight.grad is not None
        assert norm.weight.grad is None


def test_parameters_come_back_after_an_error() -> None:
    with simulated(Norm(), ReplicateParallel()) as (norm, _):
        with pytest.raises(RuntimeError):
            norm(torch.ones(3, 5, dtype=torch.float64))
        assert all(isinstance(p, DTensor) for p in norm.parameters())


def test_replicate_is_refused_twice() -> None:
    with (
        simulated(Norm(), ReplicateParallel()) as (norm, mesh),
        pytest.raises(RuntimeError, match="on this module already"),
    ):
        parallelize_module(norm, mesh, ReplicateParallel())
