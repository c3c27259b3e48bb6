import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from small_models import FAMILIES, small_config
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from planlang.model import passes
from planlang.model.calls import make_fake, silence
from planlang.model.capture import capture_config
from planlang.model.graph import Call, Enter, Event, Graph, Guard, Leave, Op, Size, mentioned
from planlang.model.graphs import capture_document, capture_graphs, trace_module
from planlang.model.packing import dump
from planlang.model.pretrained import build, model_class
from planlang.model.template import Graphs, SizeError, unpack
from planlang.model.trace import trace

by_class = pytest.mark.parametrize("cls", FAMILIES)
SIZES = {
    "plain": [(3, 10), (2, 16), (1, 7), (4, 2)],
    "masked": [(2, 16), (1, 7)],
    "step": [(4, 1), (1, 1)],
    "eager": [(2, 9), (1, 12)],
}


@pytest.fixture(scope="module")
def known() -> dict[str, Graphs]:
    """The graphs of all families, each captured once."""
    return {cls: capture_graphs(small_config(cls), cls) for cls in FAMILIES}


def names_and_modules(graph: Graph) -> tuple[set[str], set[str]]:
    """The full name of every parameter that was used and of every module that was entered."""
    parameters: set[str] = set()
    modules: set[str] = set()

    def see(layer: str, stream: tuple[Event, ...]) -> None:
        modules.update(full(layer, event.module) for event in stream if isinstance(event, Enter))
        used = [graph.values[number] for event in stream if not isinstance(event, Call) for number in mentioned(event)]
        parameters.update(full(layer, name) for value in used if value.origin == "parameter" for name in value.names)

    see("", graph.events)
    for event in graph.events:
        if isinstance(event, Call):
            see(event.module, graph.bodies[event.body])
    return parameters, modules


def full(layer: str, name: str) -> str:
    return f"{layer}.{name}".strip(".")


@by_class
def test_every_pass_is_known_in_general(known: dict[str, Graphs], cls: str) -> None:
    assert known[cls].failures == {}
    assert known[cls].failure == ""
    assert list(known[cls].passes) == ["plain", "masked", "step", "eager"]
    assert all(template.settings == () for template in known[cls].passes.values())


@by_class
def test_at_other_sizes_it_is_what_a_capture_there_gives(known: dict[str, Graphs], cls: str) -> None:
    model: Any = build(model_class(cls), small_config(cls)).eval()
    model.config.pad_token_id = 0
    with silence(), FakeTensorMode(allow_non_fake_inputs=True):
        make_fake(model, gradients=True)
        for kind, sizes in SIZES.items():
            for batch, length in sizes:
                there = passes.run(model, passes.PASSES[kind], batch, length)
                assert known[cls].passes[kind].at(batch, length) == there, (kind, batch, length)


@by_class
def test_fake_tensors_take_the_path_of_real_ones(known: dict[str, Graphs], cls: str) -> None:
    model: Any = model_class(cls)(small_config(cls)).to(torch.bfloat16).eval()
    model.config.pad_token_id = 0
    for kind, sizes in SIZES.items():
        model.set_attn_implementation("eager" if kind == "eager" else "sdpa")
        for batch, length in sizes:
            inputs = {"input_ids": torch.randint(1, 60, (batch, length))}
            if kind == "masked":
                inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
                inputs["attention_mask"][0, 0] = 0
            with silence():
                real = trace(model, inputs | {"use_cache": False}, batch=batch, length=length)
            assert known[cls].passes[kind].at(batch, length) == real, (kind, batch, length)


@by_class
def test_graph_and_tree_have_the_same_names(known: dict[str, Graphs], cls: str) -> None:
    tree = capture_config(small_config(cls), cls)
    for kind, template in known[cls].passes.items():
        parameters, modules = names_and_modules(template.at(*SIZES[kind][0]))
        assert all(tree.find(name) is not None for name in modules)
        for parameter in parameters:
            module, _, name = parameter.rpartition(".")
            node = tree.find(module)
            assert node is not None, parameter
            assert name in {each.name for each in node.parameters}
    assert {"lm_head", "score"} & modules
    assert any(name.endswith("layers.3.mlp") for name in modules)


@by_class
def test_every_value_is_there_before_it_is_used(known: dict[str, Graphs], cls: str) -> None:
    for kind, template in known[cls].passes.items():
        graph = template.at(*SIZES[kind][0])
        named = {number for event in events(graph) for number in mentioned(event)}
        assert named | set(graph.outputs) == set(range(len(graph.values)))
        made = [number for event in graph.events if isinstance(event, Op) for number in event.outs]
        made += [outer for event in graph.events if isinstance(event, Call) for _, outer in event.outputs]
        assert len(made) == len(set(made))
        assert all(graph.values[number].origin == "computed" for number in made)


def events(graph: Graph) -> Iterator[Event]:
    for stream in (graph.events, *graph.bodies):
        yield from stream


def test_a_layer_is_stored_once() -> None:
    few, many = (capture_graphs(small_config("Qwen3ForCausalLM", num_hidden_layers=n)) for n in (2, 40))
    for graphs, count in ((few, 2), (many, 40)):
        graph = graphs.passes["plain"].at(3, 10)
        assert [event.module for event in graph.events if isinstance(event, Call)] == [
            f"model.layers.{index}" for index in range(count)
        ]
        assert len(graph.bodies) == 1
    assert few.passes["plain"].at(2, 6).bodies == many.passes["plain"].at(2, 6).bodies


def test_the_number_of_layers_takes_no_room() -> None:
    lengths = []
    for count in (8, 16, 48):
        config = small_config("Qwen3NextForCausalLM", num_hidden_layers=count)
        lengths.append(len(dump(capture_document(config, "Qwen3NextForCausalLM"))))
    assert max(lengths) - min(lengths) < 100


def test_documents_are_read_as_they_were_written(known: dict[str, Graphs]) -> None:
    for cls in ("Qwen3MoeForCausalLM", "Qwen3_5ForCausalLM"):
        document = capture_document(small_config(cls), cls)
        read = unpack(json.loads(dump(document)), "")
        for kind, template in known[cls].passes.items():
            for sizes in SIZES[kind]:
                assert read.passes[kind].at(*sizes) == template.at(*sizes)
        assert dump(json.loads(dump(document))) == dump(document)


def test_sizes_keep_their_origin(known: dict[str, Graphs]) -> None:
    graph = known["Qwen3ForCausalLM"].passes["plain"].at(2, 16)
    views = [event for event in graph.bodies[0] if isinstance(event, Op) and event.name == "torch.Tensor.view"]
    batch, length, heads, width = views[0].args[1]  # type: ignore[misc]
    assert isinstance(batch, Size)
    assert isinstance(length, Size)
    assert (batch.number, length.number, heads, width) == (2, 16, -1, 8)


def test_what_is_not_known_is_refused(known: dict[str, Graphs]) -> None:
    qwen3, hybrid = known["Qwen3ForCausalLM"].passes, known["Qwen3NextForCausalLM"].passes
    for template, sizes in ((qwen3["plain"], (3, 1)), (qwen3["step"], (3, 2)), (hybrid["plain"], (2, 65))):
        with pytest.raises(SizeError, match=f"not known at batch {sizes[0]} and length {sizes[1]}, but at"):
            template.at(*sizes)
        assert template.find(*sizes) is None
    assert hybrid["plain"].at(2, 64).length == 64


def test_attention_paths_differ(known: dict[str, Graphs]) -> None:
    found = {}
    for kind, template in known["Qwen3ForCausalLM"].passes.items():
        [attention] = [
            event
            for event in template.at(*SIZES[kind][0]).bodies[0]
            if isinstance(event, Op) and event.name.endswith(("scaled_dot_product_attention", "softmax"))
        ]
        found[kind] = (attention.name.rpartition(".")[2], dict(attention.kwargs).get("is_causal"))
    assert found == {
        "plain": ("scaled_dot_product_attention", True),
        "masked": ("scaled_dot_product_attention", False),
        "step": ("scaled_dot_product_attention", False),
        "eager": ("softmax", None),
    }


def test_tied_parameters_are_one_value() -> None:
    config = small_config("Qwen3ForCausalLM", tie_word_embeddings=True)
    values = capture_graphs(config).passes["plain"].at(2, 5).values
    assert [value.names for value in values if "lm_head.weight" in value.names] == [
        ("model.embed_tokens.weight", "lm_head.weight")
    ]


def test_a_configuration_is_left_as_it_is() -> None:
    config = small_config("Qwen3ForSequenceClassification")
    before = copy.deepcopy(config.to_dict())
    capture_graphs(config, "Qwen3ForSequenceClassification")
    assert config.to_dict() == before


def test_a_live_model_has_the_graphs_of_its_configuration(known: dict[str, Graphs]) -> None:
    cls = "Qwen3ForCausalLM"
    model: Any = model_class(cls)(small_config(cls))
    model.model.layers[0].register_forward_hook(lambda *_: pytest.fail("the model was run"))
    before = {name: (tensor.data_ptr(), tensor.requires_grad) for name, tensor in model.named_parameters()}
    found = capture_graphs(model)
    assert found.failures == {}
    for kind, template in known[cls].passes.items():
        assert found.passes[kind].at(*SIZES[kind][0]) == template.at(*SIZES[kind][0])
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert model.config.pad_token_id is None
    assert before == {name: (tensor.data_ptr(), tensor.requires_grad) for name, tensor in model.named_parameters()}


@pytest.mark.parametrize("attention", ["flash_attention_2", "flex_attention"])
def test_kernels_that_are_not_here_do_not_matter(known: dict[str, Graphs], attention: str) -> None:
    config = small_config("Qwen3ForCausalLM")
    config._attn_implementation = attention
    model: Any = model_class("Qwen3ForCausalLM")(small_config("Qwen3ForCausalLM"))
    model.config._attn_implementation = attention
    expected = known["Qwen3ForCausalLM"].passes["plain"].at(2, 9)
    for given in (config, model):
        assert capture_graphs(given).passes["plain"].at(2, 9) == expected
        assert (config._attn_implementation, model.config._attn_implementation) == (attention, attention)


def test_a_single_sequence_may_not_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x * x.max().item() if x.shape[0] == 1 else x

    monkeypatch.setattr(transformers.models.qwen3.modeling_qwen3.Qwen3MLP, "forward", pairs)
    found = capture_graphs(small_config("Qwen3ForCausalLM"))
    assert found.passes["plain"].at(2, 9).batch == 2
    assert found.passes["plain"].find(1, 9) is None
    assert found.failures["plain"].startswith("not known at batch 1: `model.layers.0.mlp` failed at")


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.inner(x)
        for layer in self.layers:
            x = layer(x)
        return {"out": x[:, : x.shape[1] // 2] if x.sum() != 0 else x}


def test_any_module_at_example_inputs() -> None:
    model = Small()
    model.layers[1].weight.requires_grad_(False)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    graph = trace_module(model, (torch.ones(6, 4),)).passes["example"].at(6, 4)
    assert model.training
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert not any("forward" in vars(module) for module in model.modules())
    calls = [event for event in graph.events if isinstance(event, Call)]
    assert [(call.module, call.body) for call in calls] == [("layers.0", 0), ("layers.1", 1), ("layers.2", 0)]
    assert [event.module for event in graph.events if isinstance(event, Leave)][:3] == ["inner.0", "inner.1", "inner.2"]
    assert [event.op for event in graph.events if isinstance(event, Guard)] == ["torch.Tensor.__bool__"]
    assert graph.values[graph.outputs[0]].shape == (6, 2)
    with pytest.raises(SizeError, match="but at batch 6 and length 4"):
        trace_module(model, {"x": torch.ones(6, 4)}).passes["example"].at(2, 4)


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.reshape(-1, 3))


def test_a_failure_names_module_operator_and_reason() -> None:
    found = trace_module(Broken(), (torch.ones(2, 6),))
    assert found.passes == {}
    assert found.failure.startswith("`inner` failed at `torch.nn.functional.linear`: mat1 and mat2 shapes")
    assert "\n" not in found.failure


def test_code_that_needs_data_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_data(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x * x.max().item() if x.shape[1] > 1 else x

    monkeypatch.setattr(transformers.models.qwen3.modeling_qwen3.Qwen3MLP, "forward", needs_data)
    found = capture_graphs(small_config("Qwen3ForCausalLM"))
    assert list(found.passes) == ["step"]
    assert set(found.failures) == {"plain", "masked", "eager"}
    assert found.failures["plain"].startswith("`model.layers.0.mlp` failed at `torch.Tensor.item`")


def test_sizes_without_a_formula_are_known_where_they_were_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(self: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(x.shape[1])):
            x = x + 1
        return x

    monkeypatch.setattr(transformers.models.qwen3.modeling_qwen3.Qwen3MLP, "forward", odd)
    found = capture_graphs(small_config("Qwen3ForCausalLM"))
    assert found.passes["plain"].settings == ((3, 10), (5, 14), (4, 22))
    assert found.passes["plain"].at(5, 14).length == 14
    assert found.passes["plain"].find(5, 15) is None
    assert found.failures["plain"].startswith("known at some sizes only")
    assert found.passes["step"].settings == ()


def test_a_module_that_is_no_language_model() -> None:
    found = capture_graphs(nn.Linear(2, 2))
    assert found.passes == {}
    assert "a `Linear` is no language model of transformers" in found.failure
