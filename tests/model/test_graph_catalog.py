import json
import subprocess
import sys

import pytest

from planlang.model import build_catalog, build_graphs, catalog
from planlang.model.catalog import DATA, Entry
from planlang.model.graph import Call, Enter, Event, Graph, mentioned
from planlang.model.packing import dump
from planlang.model.template import SizeError

MODELS = [(entry, cls) for entry in catalog.names() for cls in entry.classes]
by_model = pytest.mark.parametrize(("entry", "cls"), MODELS, ids=lambda each: getattr(each, "name", each))
# transformers' own code for thinkers asks their configuration for what it does not have.
NO_MASK = {"Qwen2_5OmniThinkerForConditionalGeneration", "Qwen3OmniMoeThinkerForConditionalGeneration"}


def uses(graph: Graph) -> tuple[set[str], set[tuple[str, str, tuple[int, ...]]]]:
    """The full names of the modules entered, and module, name and shape of the parameters used."""
    modules: set[str] = set()
    parameters: set[tuple[str, str, tuple[int, ...]]] = set()

    def see(layer: str, stream: tuple[Event, ...]) -> None:
        modules.update(f"{layer}.{event.module}".strip(".") for event in stream if isinstance(event, Enter))
        for event in stream:
            for value in () if isinstance(event, Call) else map(graph.values.__getitem__, mentioned(event)):
                for name in value.names if value.origin == "parameter" else ():
                    module, _, last = f"{layer}.{name}".strip(".").rpartition(".")
                    parameters.add((module, last, value.shape))

    see("", graph.events)
    for event in graph.events:
        if isinstance(event, Call):
            see(event.module, graph.bodies[event.body])
    return modules, parameters


def test_reading_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from planlang.model.trees import named_graphs;"
        "named_graphs('Qwen3-Next-80B-A3B-Instruct').passes['plain'].at(2, 9);"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_files_hold_every_model() -> None:
    held = {file.name: list(json.loads(file.read_text())["models"]) for file in (DATA / "graphs").iterdir()}
    expected: dict[str, list[str]] = {}
    for entry, cls in MODELS:
        expected.setdefault(f"{entry.model_type}.json", []).append(f"{entry.name} {cls}")
    assert {name: sorted(models) for name, models in held.items()} == {
        name: sorted(models) for name, models in expected.items()
    }


def test_the_files_are_small_and_written_as_they_are_read() -> None:
    texts = [file.read_text(encoding="utf-8") for file in (DATA / "graphs").iterdir()]
    assert sum(map(len, texts)) < 1_500_000
    assert all(dump(json.loads(text)) == text for text in texts)


@by_model
def test_every_pass_is_known_at_every_size(entry: Entry, cls: str) -> None:
    graphs = catalog.graphs(entry.name, cls)
    expected = ["plain", "masked", "step", "eager"]
    assert list(graphs.passes) == [kind for kind in expected if kind != "masked" or cls not in NO_MASK]
    assert set(graphs.failures) == ({"masked"} if cls in NO_MASK else set())
    for kind, template in graphs.passes.items():
        for batch in (1, 2, 7):
            length = 1 if kind == "step" else 33
            assert template.at(batch, length).values[0].shape == (batch, length)


@by_model
def test_modules_and_parameters_are_those_of_the_tree(entry: Entry, cls: str) -> None:
    tree = catalog.tree(entry.name, cls)
    layers = json.loads((DATA / "checkpoints.json").read_text())["checkpoints"]
    [count] = [row["config"]["num_hidden_layers"] for row in layers if row["name"] == entry.name]
    for kind, template in catalog.graphs(entry.name, cls).passes.items():
        graph = template.at(2, 1 if kind == "step" else 9)
        modules, parameters = uses(graph)
        assert all(tree.find(module) is not None for module in modules)
        assert len([event for event in graph.events if isinstance(event, Call)]) == count
        for module, name, shape in parameters:
            node = tree.find(module)
            assert node is not None, module
            assert shape == {each.name: each.shape for each in node.parameters}[name]
        # A classifier has an output head that it does not use where there is one, and text has no use for vision.
        linear = [path for path, node in tree.walk() if node.kind == "linear"]
        assert len({module for module, _, _ in parameters}) >= len(linear)


def test_class_and_name_must_be_there() -> None:
    with pytest.raises(LookupError, match="no checkpoint"):
        catalog.graphs("Qwen3-9B")
    with pytest.raises(LookupError, match="not in the catalog as `LlamaForCausalLM`"):
        catalog.graphs("Qwen3-8B", "LlamaForCausalLM")


def test_length_is_bounded_where_code_cuts_into_chunks() -> None:
    plain = catalog.graphs("Qwen3.5-27B").passes["plain"]
    assert plain.at(2, 64).length == 64
    with pytest.raises(SizeError):
        plain.at(2, 65)


def test_the_script_tells_a_difference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    other = catalog.graphs("Qwen3-8B")
    monkeypatch.setattr(catalog, "graphs", lambda *_: other)
    assert build_catalog.main(["--check", "Qwen/Qwen3-0.6B"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "the pass plain of Qwen/Qwen3-0.6B as Qwen3ForCausalLM differs from what transformers does"
    assert len(lines) == 8
    assert build_graphs.differing_graphs([]) == []
