"""Has nemo-automodel resolve bundled and emitted plans by their dotted paths, as its recipes do.

`tests/consumer/run` makes the environment for it; it is not a part of `make test`.
"""

from __future__ import annotations

import copy
import importlib
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import transformers
from nemo_automodel.components.distributed.parallel_styles import translate_to_lora
from nemo_automodel.components.distributed.parallelizer import _get_parallel_plan
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel

import planlang

BUNDLED = ("qwen", "qwen_stable", "qwen_sequence")
TRANSLATED = (ColwiseParallel, RowwiseParallel, SequenceParallel)


def small_model(kind: str) -> nn.Module:
    """A small Qwen on the CPU."""
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=8,
    )
    model: nn.Module = getattr(transformers, f"{kind}ForCausalLM")(config)
    return model


def facts(plan: dict[str, ParallelStyle]) -> list[tuple[str, type, str]]:
    """What must be equal: keys in their order, and exactly torch's classes."""
    return [(key, type(style), repr(style)) for key, style in plan.items()]


def check_path(model: nn.Module, path: str, expected: list[tuple[str, type, str]]) -> None:
    """Resolves a plan, has it translated for LoRA, and resolves it again."""
    resolved = _get_parallel_plan(model, tp_shard_plan=path)
    assert facts(resolved) == expected, f"{path}: {resolved}"
    before = {key: copy.copy(style) for key, style in resolved.items()}
    for key, style in resolved.items():
        assert translate_to_lora(style) is style
        if type(before[key]) in TRANSLATED:
            assert type(style).__name__ == f"{type(before[key]).__name__}Lora", f"{path}: {key} was not translated"
        else:
            assert type(style) is type(before[key]), f"{path}: {key} became {type(style)}"
    assert facts(resolved) != expected
    assert facts(_get_parallel_plan(model, tp_shard_plan=path)) == expected, f"{path}: the second access is not new"


def emit(name: str, folder: Path) -> str:
    """Writes an emitted module into a package, and returns its dotted path."""
    package = folder / "emitted_plans"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / f"{name}.py").write_text(planlang.compile(name), encoding="utf-8", newline="\n")
    importlib.invalidate_caches()
    return f"emitted_plans.{name}"


def main() -> None:
    """Checks every path on every model and says how many there were."""
    checked: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        models: dict[str, Any] = {kind: small_model(kind) for kind in ("Qwen2", "Qwen3")}
        for name in BUNDLED:
            expected = facts(planlang.load(name).styles())
            assert expected
            module = emit(name, Path(folder))
            for path in (f"planlang.plans.{name}", f"{module}.PLAN", f"{module}.{name}"):
                for kind, model in models.items():
                    check_path(model, path, expected)
                    checked.append(f"{kind}  {path}")
        refused = False
        try:
            _get_parallel_plan(models["Qwen3"], tp_shard_plan="planlang.plans.no_such_plan")
        except ValueError as error:
            refused = "there is no bundled plan 'no_such_plan'" in str(error)
        assert refused, "a misspelt name should be refused with what planlang says of it"
    versions = [f"{name} {version(name)}" for name in ("nemo-automodel", "transformers", "torch")]
    print(*checked, sep="\n")
    print(f"{len(checked)} plans resolved, translated for LoRA and resolved again by {', '.join(versions)}")


if __name__ == "__main__":
    main()
