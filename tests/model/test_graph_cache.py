import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_models import SMALL, small_config

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.model import capture, graph_cache, graphs
from planlang.model.graph_cache import cached
from planlang.model.intern import equal
from planlang.model.pretrained import model_class
from planlang.model.template import Graphs
from planlang.model.tree import Tree
from planlang.model.trees import named_graphs, named_model

ROOT = Path(__file__).parents[2]
ABOUT = {"settings": {"model_type": "qwen3", **SMALL}, "cls": None}
DOCUMENT = {
    "schema": 1,
    "models": {"": {"group": 0, "columns": [], "failures": {"plain": "é"}}},
    "groups": [{}],
    **{name: [] for name in ("numbers", "texts", "values", "events", "blocks")},
    "natures": "",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PLANLANG_CACHE_DIR", raising=False)
    return tmp_path / "planlang" / "graphs"


def made(times: list[int]) -> Callable[[], Any]:
    def make() -> Any:
        times.append(1)
        return DOCUMENT

    return make


def the_file(home: Path) -> Path:
    [path] = home.iterdir()
    return path


@pytest.fixture
def written(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "qwen3", **SMALL}))
    return str(path)


def test_it_is_made_once(home: Path) -> None:
    times: list[int] = []
    first, second = cached(ABOUT, made(times)), cached(ABOUT, made(times))
    assert len(times) == 1
    assert first.failures == second.failures == {"plain": "é"}
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_file(home).stat().st_mode) == 0o600


def test_what_decides_the_graphs_is_in_the_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    for about in (ABOUT, ABOUT | {"cls": "Qwen3Model"}, ABOUT | {"settings": {}}):
        cached(about, made(times))
    monkeypatch.setattr(graph_cache, "_version", lambda _: "6.0")
    cached(ABOUT, made(times))
    monkeypatch.setattr(graph_cache, "SCHEMA", 2)
    cached(ABOUT, made(times))
    assert len(times) == 5
    assert len(list(home.iterdir())) == 5


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes().replace(b"groups", b"groupz")),
        lambda path: path.write_bytes(b"\xff\xfe\x00" * 20),
        lambda path: path.write_text("{}"),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_damaged_file_counts_for_nothing(home: Path, damage: Callable[[Path], object]) -> None:
    times: list[int] = []
    cached(ABOUT, made(times))
    damage(the_file(home))
    assert cached(ABOUT, made(times)).failures == {"plain": "é"}
    assert len(times) == 2
    whole = the_file(home).is_file()
    cached(ABOUT, made(times))
    assert len(times) == (2 if whole else 3)
    assert len(list(home.iterdir())) == 1


def test_a_file_of_other_graphs_counts_for_nothing(home: Path) -> None:
    times: list[int] = []
    cached(ABOUT, made(times))
    other = the_file(home).read_bytes()
    the_file(home).unlink()
    cached(ABOUT | {"cls": "Qwen3Model"}, made(times))
    the_file(home).write_bytes(other)
    cached(ABOUT | {"cls": "Qwen3Model"}, made(times))
    assert len(times) == 3


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_is_read_only(home: Path) -> None:
    home.mkdir(parents=True)
    home.chmod(0o500)
    assert cached(ABOUT, made([])).failures


@pytest.mark.parametrize("place", ["/dev/null/nothing", "/proc/nothing", ""])
def test_no_place_to_keep_it(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("PLANLANG_CACHE_DIR", place)
    times: list[int] = []
    for _ in range(2):
        assert cached(ABOUT, made(times)).failures
    assert len(times) == 2


def test_a_file_stands_where_the_folder_should(home: Path) -> None:
    home.parent.mkdir()
    home.write_text("")
    assert cached(ABOUT, made([])).failures
    assert home.read_text() == ""


def test_a_configuration_is_captured_once(home: Path, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = named_graphs(written)
    assert isinstance(first, Graphs)
    assert the_file(home).is_file()
    monkeypatch.setattr(graphs, "capture_records", lambda *_: pytest.fail("captured again"))
    second = named_graphs(written)
    assert isinstance(second, Graphs)
    assert second.passes["plain"].at(2, 9) == first.passes["plain"].at(2, 9)


def test_reading_from_the_cache_imports_neither_torch_nor_transformers(written: str) -> None:
    named_graphs(written)
    code = (
        "import sys; from planlang.model.trees import named_graphs;"
        "named_graphs(sys.argv[1]).passes['step'].at(2, 1);"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code, written], check=False).returncode == 0


def test_the_tree_of_a_configuration_is_captured_once(
    home: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = named_model(written)
    assert isinstance(first, Tree)
    assert first.root.call is not None
    assert stat.S_IMODE(the_file(home.parent / "trees").stat().st_mode) == 0o600
    monkeypatch.setattr(capture, "capture_config", lambda *_: pytest.fail("captured again"))
    beside = Path(written).with_name("same.json")
    beside.write_bytes(Path(written).read_bytes())
    for path in (written, str(beside)):
        second = named_model(path)
        assert isinstance(second, Tree)
        assert second.name == path
        assert equal(first, second)


def test_a_setting_that_is_no_unicode(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "qwen3", **SMALL, "odd": "\ud800"}))
    first, second = named_model(str(path)), named_model(str(path))
    assert isinstance(first, Tree)
    assert isinstance(second, Tree)
    assert first.config["odd"] == "\ud800"
    assert equal(first, second)


def test_a_check_that_is_repeated_imports_neither_torch_nor_transformers(written: str) -> None:
    code = (
        "import sys; from planlang.cli.main import run;"
        "run(['check', 'plans/qwen.plan', '--model', sys.argv[1]]);"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    runs = [subprocess.run([sys.executable, "-c", code, written], check=False, cwd=ROOT) for _ in range(2)]
    assert [run.returncode for run in runs] == [1, 0]


def test_configurations_and_live_models_are_kept_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = "Qwen2ForCausalLM"
    model: Any = model_class(cls)(small_config(cls))
    config = named_graphs(small_config(cls), cls)
    live = named_graphs(model)
    assert isinstance(config, Graphs)
    assert isinstance(live, Graphs)
    assert live.passes["plain"].at(2, 9) == config.passes["plain"].at(2, 9)
    assert len(list(home.iterdir())) == 2
    monkeypatch.setattr(graphs, "capture_records", lambda *_: pytest.fail("captured again"))
    named_graphs(small_config(cls))
    named_graphs(model)


def test_a_model_with_code_of_its_own_is_captured_each_time(home: Path) -> None:
    model: Any = model_class("Qwen2ForCausalLM")(small_config("Qwen2ForCausalLM"))
    mlp = type("MyMLP", (type(model.model.layers[1].mlp),), {"__module__": "mine"})
    model.model.layers[1].mlp.__class__ = mlp
    found = named_graphs(model)
    assert isinstance(found, Graphs)
    assert len(found.passes["plain"].at(2, 9).bodies) == 2
    assert not home.exists() or not list(home.iterdir())


@pytest.mark.parametrize(
    ("spec", "cls"), [("Qwen3-9B", None), ("Qwen3-8B", "LlamaForCausalLM"), ("config", "Qwen3ForCausalLm")]
)
def test_what_has_no_tree_has_no_graphs_for_the_same_reason(written: str, spec: str, cls: str | None) -> None:
    given = written if spec == "config" else spec
    found = named_graphs(given, cls)
    assert isinstance(found, Finding)
    assert found == named_model(given, cls)


def test_a_configuration_without_a_model() -> None:
    found = named_graphs(small_config("Qwen3ForCausalLM"), "LlamaForCausalLM")
    assert isinstance(found, Finding)
    assert found.code == codes.UNKNOWN_ARCHITECTURE
