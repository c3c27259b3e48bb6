import json
import subprocess
import sys

import pytest

from planlang.indices import IndexSet
from planlang.model import catalog
from planlang.model.catalog import DATA, Entry
from planlang.model.generalize import generalize
from planlang.model.intern import equal
from planlang.model.store import dump, load

FACTS = {row["name"]: row for row in json.loads((DATA / "checkpoints.json").read_text())["checkpoints"]}
by_name = pytest.mark.parametrize("entry", catalog.names(), ids=lambda entry: entry.name)


def test_reading_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from planlang.model import catalog, resolve, capture, build_catalog;"
        "catalog.class_tree('Qwen3ForCausalLM'); resolve.model_tree('Qwen3-8B');"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_catalog_holds_every_checkpoint_of_the_facts() -> None:
    assert [entry.name for entry in catalog.names()] == list(FACTS)
    assert {file.name for file in DATA.glob("*.json")} == {
        "index.json",
        "checkpoints.json",
        *(entry.file for entry in catalog.names()),
    }


def test_names_are_unique() -> None:
    published = [name for entry in catalog.names() for name in (entry.name, *entry.aliases)]
    assert len({name.lower() for name in published}) == len(published)
    assert all(catalog.find(entry.name) is entry for entry in catalog.names())


@by_name
def test_the_index_says_what_the_facts_say(entry: Entry) -> None:
    facts = FACTS[entry.name]["config"]
    assert (entry.heads, entry.kv_heads) == (facts["num_attention_heads"], facts["num_key_value_heads"])
    assert entry.params == FACTS[entry.name]["params"] or FACTS[entry.name]["params"] is None
    for cls in entry.classes:
        config = catalog.tree(entry.name, cls).config
        assert {key: config[key] for key in facts if key != "model_type"} == {
            key: value for key, value in facts.items() if key != "model_type"
        }


@by_name
def test_parameters_add_up_to_the_published_number(entry: Entry) -> None:
    tree = catalog.tree(entry.name)
    assert tree.size() == entry.params
    assert entry.tied == bool(tree.tied)


@by_name
def test_layers_are_stored_once_for_each_kind(entry: Entry) -> None:
    tree = catalog.tree(entry.name)
    [layers] = [node for path, node in tree.walk() if path[-1:] == ("layers",)]
    assert layers.length == FACTS[entry.name]["config"]["num_hidden_layers"]
    assert len(layers.children) == (2 if "linear_key_head_dim" in FACTS[entry.name]["config"] else 1)


@by_name
def test_documents_are_written_as_they_are_read(entry: Entry) -> None:
    text = (DATA / entry.file).read_text(encoding="utf-8")
    assert dump(load(text)) == text


@by_name
def test_every_linear_layer_has_a_call(entry: Entry) -> None:
    for cls in entry.classes:
        for path, node in catalog.tree(entry.name, cls).walk():
            assert node.call is not None or node.kind == "container" or node.cls == "Conv1d", path


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("qwen3-8b", "Qwen/Qwen3-8B"),
        ("QWEN/QWEN3-8B-BASE", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B"),
        ("Qwen3-4B-Thinking-2507", "Qwen/Qwen3-4B"),
        ("Qwen2.5-Math-7B-Instruct", "Qwen/Qwen2.5-7B"),
        ("QwQ-32B", "Qwen/Qwen2.5-32B"),
        ("Qwen3-VL-8B-Thinking", "Qwen/Qwen3-VL-8B-Instruct"),
        ("Qwen3-VL-8B", "Qwen/Qwen3-VL-8B-Instruct"),
        ("Qwen1.5-7B-Chat", "Qwen/Qwen1.5-7B"),
    ],
)
def test_ways_to_write_a_name(written: str, name: str) -> None:
    entry = catalog.find(written)
    assert entry is not None
    assert entry.name == name
    assert catalog.tree(written).name == written


@pytest.mark.parametrize("written", ["", "Qwen/", "Qwen3", "Qwen3-9B", "Other/Qwen3-8B", "Qwen3-8B-Instruct-FP8"])
def test_other_names_are_not_found(written: str) -> None:
    assert catalog.find(written) is None
    with pytest.raises(LookupError, match="no checkpoint"):
        catalog.tree(written)


def test_a_class_that_a_checkpoint_has_not() -> None:
    with pytest.raises(LookupError, match="not in the catalog as `LlamaForCausalLM`"):
        catalog.tree("Qwen3-8B", "LlamaForCausalLM")


def test_close_names() -> None:
    assert "Qwen/Qwen3-8B" in catalog.close_names("qwen3-9B")
    assert catalog.close_names("gpt2") == []


def test_tensor_parallel_sizes_divide_both_kinds_of_heads() -> None:
    sizes = {name: entry.tp_sizes for name in ("Qwen3-8B", "Qwen1.5-4B") if (entry := catalog.find(name))}
    assert sizes == {"Qwen3-8B": (2, 4, 8), "Qwen1.5-4B": (2, 4, 5, 10, 20)}


def test_tied_pairs() -> None:
    assert catalog.tree("Qwen3-0.6B").tied == (("model.embed_tokens.weight", "lm_head.weight"),)
    assert catalog.tree("Qwen3-8B").tied == ()


def test_a_dense_layer() -> None:
    tree = catalog.tree("Qwen3-8B")
    attention = tree.find("model.layers.35.self_attn")
    assert attention is not None
    assert [child.name for child in attention.children] == ["q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"]
    norm, layers = attention.children[4].node, tree.find("model.layers")
    assert (norm.kind, norm.parameters[0].shape, norm.call and norm.call.inputs) == ("norm", (128,), (4,))
    assert layers is not None
    assert [child.name for child in layers.children] == [IndexSet.of(range(36))]


def test_parts_of_unknown_size_are_left_out() -> None:
    tree = catalog.tree("Qwen3-VL-8B")
    assert tree.omitted == ("model.visual",)
    assert tree.find("model.visual") is None
    assert tree.find("model.language_model.layers.0") is not None


def test_class_trees() -> None:
    assert catalog.class_tree("LlamaForCausalLM") is None
    for cls in catalog.classes():
        tree = catalog.class_tree(cls)
        assert tree is not None
        assert tree.is_class
        members = [catalog.tree(entry.name, cls) for entry in catalog.names() if cls in entry.classes]
        assert equal(tree, generalize(members))
        for member in members:
            # Every module of every model is a module of the class, under the same name.
            for path, node in member.walk():
                first = ".".join(str(min(part)) if isinstance(part, IndexSet) else part for part in path)
                same = tree.find(first)
                assert same is not None, first
                assert same.cls == node.cls
