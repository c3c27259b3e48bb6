"""Plans as consumers take them: resolved by import and getattr, and changed in place as a LoRA translation does."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel

import planlang
from planlang.model.tree import Tree
from planlang.model.trees import named_model

BUNDLED = ["qwen", "qwen_stable", "qwen_sequence"]
CLASSES = ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen2ForSequenceClassification", "Qwen3ForSequenceClassification")


def resolve(path: str) -> dict[str, ParallelStyle]:
    """What NeMo-RL (v2) and Automodel do with a dotted path."""
    module, _, attribute = path.rpartition(".")
    value: Any = getattr(importlib.import_module(module), attribute)
    if isinstance(value, types.FunctionType):
        value = value()
    assert isinstance(value, dict)
    return value


class ColwiseLora(ColwiseParallel):
    pass


class RowwiseLora(RowwiseParallel):
    pass


class SequenceLora(SequenceParallel):
    pass


LORA = {ColwiseParallel: ColwiseLora, RowwiseParallel: RowwiseLora, SequenceParallel: SequenceLora}


def translate(plan: dict[str, ParallelStyle]) -> None:
    """Replaces the classes of the styles in place, by exact type."""
    for style in plan.values():
        style.__class__ = LORA.get(type(style), type(style))


@pytest.fixture
def emitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "emitted_stable.py").write_text(planlang.compile("qwen_stable"))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("emitted_stable", None)
    return "emitted_stable"


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_plan_by_dotted_path(name: str) -> None:
    expected = repr(planlang.load(name).styles())
    taken = resolve(f"planlang.plans.{name}")
    assert repr(taken) == expected
    translate(taken)
    assert any(type(style) in LORA.values() for style in taken.values())
    assert repr(resolve(f"planlang.plans.{name}")) == expected, "the next consumer gets styles of its own"


@pytest.mark.parametrize("attribute", ["PLAN", "qwen_stable"])
def test_the_emitted_module_by_dotted_path(emitted: str, attribute: str) -> None:
    expected = repr(planlang.load("qwen_stable").styles())
    taken = resolve(f"{emitted}.{attribute}")
    assert repr(taken) == expected
    translate(taken)
    assert repr(resolve(f"{emitted}.{attribute}")) == expected


def test_an_unknown_bundled_plan_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="qwen_stable"):
        importlib.import_module("planlang.plans").no_such_plan  # noqa: B018


def test_the_emitted_modules_import_torch_alone(tmp_path: Path) -> None:
    for name in BUNDLED:
        (tmp_path / f"only_{name}.py").write_text(planlang.compile(name))
    names = ", ".join(f"only_{name}" for name in BUNDLED)
    script = (
        "import sys; sys.modules['planlang'] = None; sys.modules['transformers'] = None\n"
        f"import {names}\nprint(*(len(each.PLAN) for each in ({names})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert list(map(int, done.stdout.split())) == [len(planlang.load(name).styles()) for name in BUNDLED]


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("cls", CLASSES)
def test_styles_are_of_exactly_torchs_classes(name: str, cls: str) -> None:
    tree = named_model("Qwen/Qwen3-0.6B" if "Qwen3" in cls else "Qwen/Qwen2.5-0.5B", cls)
    assert isinstance(tree, Tree)
    styles = planlang.load(name).styles(tree)
    for style in styles.values():
        assert type(style).__module__ == "torch.distributed.tensor.parallel.style"


def seed() -> dict[str, ParallelStyle]:
    """The plan of NeMo-RL's pull request 1235, entry by entry."""
    return {
        "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        "model.layers.*.self_attn.q_proj": ColwiseParallel(),
        "model.layers.*.self_attn.k_proj": ColwiseParallel(),
        "model.layers.*.self_attn.v_proj": ColwiseParallel(),
        "model.layers.*.self_attn.o_proj": ColwiseParallel(
            input_layouts=Shard(-1), output_layouts=Replicate(), use_local_output=True
        ),
        "model.layers.*.mlp.up_proj": ColwiseParallel(),
        "model.layers.*.mlp.gate_proj": ColwiseParallel(),
        "model.layers.*.mlp.down_proj": ColwiseParallel(
            input_layouts=Shard(-1), output_layouts=Replicate(), use_local_output=True
        ),
    }


def test_qwen_stable_is_the_seeds_plan_and_two_norm_rules() -> None:
    compiled = {key: repr(style) for key, style in planlang.load("qwen_stable").styles().items()}
    norms = [compiled.pop(f"model.layers.*.self_attn.{name}_norm") for name in "qk"]
    assert compiled == {key: repr(style) for key, style in seed().items()}
    assert norms == [repr(SequenceParallel(sequence_dim=2, use_local_output=True))] * 2
