import warnings
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

from planlang.indices import IndexSet
from planlang.model import build_catalog, calls, catalog
from planlang.model.capture import CaptureError, capture_config, capture_module, class_defaults
from planlang.model.intern import equal
from planlang.model.pretrained import build, config_for, model_class
from planlang.model.tree import Call, Child, Kind

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


@pytest.mark.parametrize(
    "name",
    ["Qwen/Qwen2.5-72B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3.5-0.8B", "Qwen/Qwen3-VL-2B-Instruct"],
)
def test_the_catalog_is_what_the_script_makes(name: str) -> None:
    assert build_catalog.main(["--check", name]) == 0


def test_the_script_tells_a_difference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(build_catalog, "make_files", lambda names: {"qwen3-8b.json": "other"})
    assert build_catalog.main(["--check", "Qwen/Qwen3-8B"]) == 1
    assert capsys.readouterr().err == "qwen3-8b.json differs from what transformers builds\n"


def test_the_script_refuses_unknown_names_and_wrong_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert build_catalog.main(["--check", "Qwen/Qwen9-1B"]) == 1
    assert capsys.readouterr().err == "no such checkpoint: Qwen/Qwen9-1B\n"
    row = {"name": "x", "params": 1, "config": {"model_type": "qwen3", **SMALL}}
    with pytest.raises(build_catalog.CatalogError, match=r"parameters, published are 1$"):
        build_catalog.make_trees(row)


def test_a_live_model_has_the_structure_of_the_catalog() -> None:
    with torch.device("meta"):
        live = transformers.Qwen3ForCausalLM(config_for("Qwen3ForCausalLM", {**SMALL, "tie_word_embeddings": False}))
    tree, known = capture_module(live), catalog.tree("Qwen3-8B")
    modules = [(path, node.cls, node.kind, node.bases) for path, node in tree.walk()]
    layers = IndexSet.of(range(36)), IndexSet.of(range(3))
    assert modules == [
        (tuple(layers[1] if part == layers[0] else part for part in path), node.cls, node.kind, node.bases)
        for path, node in known.walk()
    ]


def test_a_live_model_of_catalog_size_equals_the_catalog() -> None:
    known = catalog.tree("Qwen3-0.6B")
    facts = {key: value for key, value in known.config.items() if key != "model_type"}
    tree = capture_config(config_for("Qwen3ForCausalLM", facts))
    assert equal(replace(tree, config=known.config), known)
    assert tree.config | dict(known.config) == tree.config


def test_equal_layers_are_one_node() -> None:
    tree = capture_module(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    assert [(child.name, child.node.cls) for child in tree.root.children] == [
        (IndexSet.of([0, 2]), "Linear"),
        (IndexSet.of([1]), "ReLU"),
    ]
    assert (tree.cls, tree.root.kind, tree.root.length) == ("Sequential", Kind.CONTAINER, 3)
    assert tree.config == {"model_type": None}
    assert not tree.is_class


class MyNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class EmptyNorm(nn.Module):
    pass


class MyLinear(nn.Linear):
    pass


@pytest.mark.parametrize(
    ("module", "kind", "bases"),
    [
        (MyLinear(2, 2), Kind.LINEAR, ("Linear",)),
        (nn.Embedding(2, 2), Kind.EMBEDDING, ()),
        (nn.LayerNorm(2), Kind.NORM, ()),
        (nn.RMSNorm(2), Kind.NORM, ()),
        (nn.GroupNorm(1, 2), Kind.NORM, ()),
        (MyNorm(), Kind.NORM, ()),
        (EmptyNorm(), Kind.OTHER, ()),
        (nn.ModuleList(), Kind.CONTAINER, ()),
        (nn.ModuleDict(), Kind.CONTAINER, ()),
        (nn.Conv1d(1, 1, 1), Kind.OTHER, ("_ConvNd",)),
    ],
)
def test_kinds_and_bases(module: nn.Module, kind: Kind, bases: tuple[str, ...]) -> None:
    root = capture_module(module).root
    assert (root.cls, root.kind, root.bases) == (type(module).__name__, kind, bases)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head, self.missing = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False), None
        self.norm = MyNorm()
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor, *, twice: bool = False) -> dict[str, torch.Tensor]:
        hidden = self.norm(self.embed(tokens))
        return {"logits": self.head(self.norm(hidden[0]) if twice else hidden)}


def test_tied_parameters_and_calls_of_a_live_module() -> None:
    model = Tied()
    tree = capture_module(model, "mine", example_inputs=(torch.zeros((1, 3), dtype=torch.int64),))
    assert (tree.name, tree.cls, tree.size()) == ("mine", "Tied", 8 * 4 + 4)
    assert tree.tied == (("embed.weight", "head.weight"),)
    assert tree.root.call == Call((2,), (), (3,))
    assert [child.name for child in tree.root.children] == ["embed", "head", "norm"]
    assert model.training
    assert not model.head._forward_hooks


def test_a_module_called_in_two_ways_has_no_call() -> None:
    tree = capture_module(Tied(), example_inputs={"tokens": torch.zeros((1, 3), dtype=torch.int64), "twice": True})
    assert tree.root.call == Call((), (("tokens", 2), ("twice", None)), (2,))
    norm = tree.find("norm")
    assert norm is not None
    assert norm.call is None


def test_without_inputs_or_with_wrong_ones_no_calls_are_known() -> None:
    model = Tied()
    for tree in (capture_module(model), capture_module(model, example_inputs=("text",))):
        assert all(node.call is None for _, node in tree.walk())


def test_a_module_under_two_names_is_one_set_of_parameters() -> None:
    layer = nn.Linear(2, 2, bias=False)
    tree = capture_module(nn.Sequential(layer, layer))
    assert tree.tied == (("0.weight", "1.weight"),)
    assert tree.size() == 4


def test_lists_of_named_children_keep_their_names() -> None:
    children = capture_module(nn.ModuleDict({"0": nn.ReLU(), "1": nn.ReLU()})).root.children
    assert children == (Child("0", children[0].node), Child("1", children[0].node))


def test_lazy_parameters_have_no_shape() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.LazyLinear(3)
    with pytest.raises(CaptureError, match="`weight` has no shape before the first forward pass"):
        capture_module(model)


def test_layers_that_hybrid_models_repeat() -> None:
    tree = capture_config(config_for("Qwen3_5ForCausalLM", SMALL | {"num_hidden_layers": 8}))
    layers = tree.find("model.layers")
    assert layers is not None
    assert [str(child.name) for child in layers.children] == ["{0..2,4..6}", "{3,7}"]


def test_the_language_model_of_a_composite_configuration() -> None:
    config = config_for("Qwen3_5ForConditionalGeneration", SMALL | {"tie_word_embeddings": True})
    whole, text = (
        capture_config(config, "Qwen3_5ForConditionalGeneration"),
        capture_config(config, "Qwen3_5ForCausalLM"),
    )
    assert whole.find("model.visual") is not None
    assert text.find("model.layers.0") is not None
    assert (whole.config["model_type"], whole.config["hidden_size"]) == ("qwen3_5", 32)


def test_settings_answer_to_their_other_names() -> None:
    tree = capture_config(config_for("MixtralForCausalLM", SMALL | {"num_local_experts": 4}))
    assert tree.config["num_experts"] == tree.config["num_local_experts"] == 4


def test_head_dim_is_filled_in() -> None:
    facts = {key: value for key, value in SMALL.items() if key != "head_dim"}
    assert capture_config(config_for("Qwen2ForCausalLM", facts)).config["head_dim"] == 8


@pytest.mark.parametrize("cls", ["LlamaForCausalLM", "DeepseekV3ForCausalLM", "T5ForConditionalGeneration"])
def test_defaults_of_a_class(cls: str) -> None:
    tree = class_defaults(cls)
    assert (tree.cls, tree.name, tree.is_class) == (cls, cls, True)
    assert tree.root.call is not None
    assert all(dim == -1 for _, node in tree.walk() for parameter in node.parameters for dim in parameter.shape)


def test_two_layer_lists_of_one_class_stay_apart() -> None:
    layers = class_defaults("DeepseekV3ForCausalLM").find("model.layers")
    assert layers is not None
    [child] = layers.children
    assert [(below.name, below.node.cls) for below in child.node.children if below.name == "mlp"] == [
        ("mlp", "DeepseekV3MLP"),
        ("mlp", "DeepseekV3MoE"),
    ]


@pytest.mark.parametrize("cls", ["NoSuchForCausalLM", "AutoConfig", "Qwen3Config", "", "__name__"])
def test_no_such_class(cls: str) -> None:
    with pytest.raises(CaptureError, match="has no model class"):
        class_defaults(cls)


def test_a_class_for_other_models() -> None:
    with pytest.raises(CaptureError, match="`LlamaForCausalLM` is no class for `qwen3` models") as caught:
        capture_config(config_for("Qwen3ForCausalLM", SMALL), "LlamaForCausalLM")
    assert caught.value.fault == "class"


@pytest.mark.parametrize("cls", ["Qwen3ForCausalLM", "Qwen3_5ForCausalLM", "Qwen2MoeForCausalLM"])
def test_repeated_layers_are_called_as_the_first_of_them(cls: str) -> None:
    model = build(model_class(cls), config_for(cls, SMALL | {"num_hidden_layers": 8}))
    root = capture_module(model).root
    with FakeTensorMode(allow_non_fake_inputs=True):
        calls.make_fake(model)
        inputs = {"input_ids": torch.ones((1, 8), dtype=torch.int64), "use_cache": False}
        quick, whole = (calls.record_calls(model, root, inputs, twins=twins) for twins in (True, False))
    assert quick
    assert quick == whole


@pytest.fixture
def two_ranks() -> Iterator[DeviceMesh]:
    """A mesh of two ranks, of which only this one is there."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


def test_sharded_models_have_global_shapes_and_their_own_classes(two_ranks: DeviceMesh) -> None:
    plain = capture_module(nn.Sequential(MyLinear(4, 6), nn.ReLU()))
    columns = nn.Sequential(MyLinear(4, 6), nn.ReLU())
    parallelize_module(columns, two_ranks, {"0": ColwiseParallel()})
    sharded = nn.Sequential(MyLinear(4, 6), nn.ReLU())
    fully_shard(sharded[0], mesh=two_ranks)
    fully_shard(sharded, mesh=two_ranks)
    assert type(sharded).__name__ == "FSDPSequential"
    assert equal(capture_module(columns), plain)
    assert equal(capture_module(sharded), plain)
