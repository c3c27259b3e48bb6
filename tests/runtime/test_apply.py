"""Styles reach the modules of a model; what torch loses on the way is kept, and what cannot work is refused before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

from planlang import layout as layouts
from planlang.diagnostics.codes import APPLIED_TWICE, MESH_MISMATCH, OVERLAPPING_RULES, TORCH_REFUSED, Code
from planlang.diagnostics.finding import Finding, PlanError
from planlang.plan.styles import Colwise, Prepare, Replicated, Rowwise, Sequence, Skip, Style
from planlang.runtime.apply import apply
from planlang.source import Place, Source, Span

SOURCE = Source("my.plan", "up: colwise\ndown: rowwise\n")
HERE = Place(SOURCE, Span(0, 2))
THERE = Place(SOURCE, Span(12, 16))


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    """Rank 0 of four that do not exist: collectives do nothing."""
    dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    yield
    dist.destroy_process_group()


@pytest.fixture
def mesh(world: None) -> DeviceMesh:
    return init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))


class Block(nn.Module):
    """An MLP with a norm, a tied pair and a module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
        self.again = self.up

    def forward(self, ids: Tensor) -> Tensor:
        x = self.norm(self.embed(ids))
        return self.head(self.down(self.up(x).relu()))


def styles(**of: Style) -> dict[str, tuple[Style, Place | None]]:
    return {name: (style, HERE) for name, style in of.items()}


def refused(code: Code, *arguments: Any, **keywords: Any) -> Finding:
    """The one finding that `apply` raises."""
    with pytest.raises(PlanError) as caught:
        apply(*arguments, **keywords)
    (finding,) = caught.value.findings
    assert finding.code is code
    return finding


def placements(model: nn.Module) -> dict[str, Any]:
    return {
        name: parameter.placements if isinstance(parameter, DTensor) else None
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }


def test_parameters_lie_as_torch_lays_them(mesh: DeviceMesh) -> None:
    ours, theirs = Block(), Block()
    assert apply(ours, mesh, styles(up=Colwise(), down=Rowwise(), head=Skip())) is ours
    parallelize_module(theirs, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    assert placements(ours) == placements(theirs)
    assert placements(ours)["up.weight"] == (Shard(0),)
    assert ours(torch.arange(3)).shape == (3, 16)


def test_any_mesh_that_has_the_axis_serves() -> None:
    for mesh in (
        init_device_mesh("cpu", (4,)),
        init_device_mesh("cpu", (4,), mesh_dim_names=("tp",)),
        init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")),
        init_device_mesh("cpu", (4, 1), mesh_dim_names=("dp", "tp")),
    ):
        weight = apply(Block(), mesh, styles(up=Colwise())).up.weight
        assert weight.device_mesh.ndim == 1
        assert weight.device_mesh.size() == mesh.size(mesh.ndim - 1)


def test_a_mesh_without_the_axis_is_refused() -> None:
    finding = refused(MESH_MISMATCH, Block(), init_device_mesh("cpu", (4,), mesh_dim_names=("model",)), {})
    assert finding.message == "the device mesh has no dimension `tp`"
    assert "`model`" in finding.notes[0]
    finding = refused(MESH_MISMATCH, Block(), init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "cp")), {})
    assert "`dp` and `cp`" in finding.notes[0]
    finding = refused(MESH_MISMATCH, Block(), init_device_mesh("cpu", (2, 2)), {})
    assert "no names" in finding.notes[0]


def test_styles_of_two_axes_go_to_their_meshes() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("ep", "tp"))
    model = apply(Block(), mesh, styles(up=Colwise(axis="ep"), down=Rowwise()), axes=("ep", "tp"))
    assert model.up.weight.device_mesh.mesh_dim_names == ("ep",)
    assert model.down.weight.device_mesh.mesh_dim_names == ("tp",)
    flat = init_device_mesh("cpu", (4,))
    refused(MESH_MISMATCH, Block(), flat, {}, axes=("ep", "tp"))


def test_parameters_on_another_device_are_refused_and_meta_ones_are_not(mesh: DeviceMesh) -> None:
    with torch.device("meta"):
        model = Block()
    assert apply(model, mesh, styles(up=Colwise())).up.weight.to_local().shape == (4, 8)
    other = init_device_mesh("cuda", (4,), mesh_dim_names=("tp",))
    finding = refused(MESH_MISMATCH, Block(), other, styles(up=Colwise()))
    assert finding.message == "`up.weight` is on `cpu`, and the device mesh is of `cuda` devices"


def test_a_second_plan_is_refused_before_anything_changes(mesh: DeviceMesh) -> None:
    model = apply(Block(), mesh, styles(up=Colwise()))
    before = placements(model)
    finding = refused(APPLIED_TWICE, model, mesh, styles(down=Rowwise(), up=Colwise()))
    assert "`tp` already" in finding.message
    assert placements(model) == before


def test_a_model_that_torch_made_parallel_is_refused(mesh: DeviceMesh) -> None:
    model = parallelize_module(Block(), mesh, {"up": ColwiseParallel()})
    before = placements(model)
    finding = refused(APPLIED_TWICE, model, mesh, styles(down=Rowwise(), up=Colwise()))
    assert finding.message == "`up.weight` is a DTensor already"
    assert placements(model) == before


def test_frozen_parameters_stay_frozen(mesh: DeviceMesh) -> None:
    model = Block().requires_grad_(False)
    model.down.bias.requires_grad_(True)
    before = {name: p.requires_grad for name, p in model.named_parameters()}
    apply(model, mesh, styles(up=Colwise(), down=Rowwise(), norm=Sequence(), head=Replicated()))
    assert {name: p.requires_grad for name, p in model.named_parameters()} == before


@pytest.mark.parametrize(
    ("of", "placed"),
    [
        ({"embed": Rowwise(), "head": Colwise()}, Shard(0)),
        ({"head": Colwise(), "embed": Colwise()}, Shard(1)),
        ({"embed": Rowwise()}, Shard(0)),
        ({"head": Replicated()}, Replicate()),
    ],
)
def test_a_tied_weight_stays_one(mesh: DeviceMesh, of: dict[str, Style], placed: Any) -> None:
    model = apply(Block(), mesh, styles(**of))
    assert model.head.weight is model.embed.weight
    assert model.embed.weight.placements == (placed,)
    assert sum(name.endswith("weight") for name, _ in model.named_parameters()) == 4


def test_a_transformers_model_stays_tied_without_its_help(mesh: DeviceMesh) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"vocab_size": 16, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    model = Qwen2ForCausalLM(
        Qwen2Config(**sizes, num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True)
    )
    head = Colwise(out=layouts.Shard(-1), local=False)
    rules: dict[str, Style] = {"model.embed_tokens": Rowwise(in_=layouts.Replicate()), "lm_head": head}
    apply(model, mesh, styles(**rules))
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.lm_head.weight.placements == (Shard(0),)
    assert model(input_ids=torch.arange(3)[None]).logits.placements == (Shard(2),)


def test_a_module_with_two_names_is_applied_once(mesh: DeviceMesh) -> None:
    model = apply(Block(), mesh, styles(up=Colwise(), again=Colwise()))
    assert model.again is model.up
    assert len(model.up._forward_hooks) == 1


def test_two_styles_for_one_module_are_refused(mesh: DeviceMesh) -> None:
    finding = refused(OVERLAPPING_RULES, Block(), mesh, {"up": (Colwise(), HERE), "again": (Rowwise(), THERE)})
    assert finding.place == THERE
    assert finding.related[0].place == HERE


def test_what_torch_raises_names_the_module_and_the_rule(mesh: DeviceMesh) -> None:
    finding = refused(TORCH_REFUSED, Block(), mesh, styles(norm=Colwise()))
    assert finding.message == "torch refused the style of `norm`, a LayerNorm"
    assert finding.place == HERE
    assert "only support nn.Linear and nn.Embedding" in finding.notes[0]


def test_a_style_around_others_takes_what_they_leave(mesh: DeviceMesh) -> None:
    model = nn.Sequential(Block())
    apply(model, mesh, {"": (Replicated(), None), "0.up": (Colwise(), None), "0.down": (Rowwise(), None)})
    assert placements(model)["0.up.weight"] == (Shard(0),)
    assert placements(model)["0.norm.weight"] == (Replicate(),)
    assert model[0].head.weight is model[0].embed.weight
    assert type(model(torch.arange(3))) is Tensor


def test_prepare_leaves_parameters_alone(mesh: DeviceMesh) -> None:
    turn = layouts.Conversion(layouts.Replicate(), layouts.Replicate())
    model = apply(Block(), mesh, styles(down=Prepare(inputs=(turn,), local_in=True)))
    assert set(placements(model).values()) == {None}
    assert model(torch.arange(3)).shape == (3, 16)
    refused(APPLIED_TWICE, model, mesh, styles(up=Colwise()))


def test_a_name_that_the_model_lacks_is_an_error_of_the_caller(mesh: DeviceMesh) -> None:
    with pytest.raises(KeyError, match="gate"):
        apply(Block(), mesh, styles(gate=Colwise()))
