"""The target `python`: what is emitted is formatted, runs, gives the plan's own styles, and is the same everywhere."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from plan_texts import BUNDLED, TEXTS, Text, plan
from torch.distributed.tensor.parallel import ParallelStyle

import planlang
from planlang.version import __version__

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
RUFF = Path(sys.executable).with_name("ruff")
SOURCES = {**dict.fromkeys(BUNDLED), **TEXTS}

# Written wrongly by the compiler today; strict, so that whoever mends one finds out here.
ODDITIES = {
    "a carriage return in comments ends them": Text(
        text=plan("# above\rit\nlm_head: colwise  # behind\rit", above="# why\rnot\n")
    ),
    "an argument of a custom style that is a Python keyword": Text(
        text=plan('lm_head: custom "custom_styles:Scaled"(in=1, class=2)')
    ),
    "a plan named as the module of its custom style": Text(
        text=plan('lm_head: custom "custom_styles:Scaled"', name="custom_styles")
    ),
    "modules whose names are sorted without regard to case": Text(
        text=plan('*.q_proj: custom "Zeta:Scaled"\n*.k_proj: custom "alpha:Scaled"')
    ),
    "a custom style from a module that the styles come from": Text(
        text=plan('lm_head: custom "torch.distributed.tensor.parallel:ColwiseParallel"(use_local_output=false)')
    ),
    **{
        f"a plan named {name}": Text(text=plan("lm_head: colwise", name=name))
        for name in ("dict", "name", "__getattr__", "AttributeError")
    },
}


def loaded(name: str) -> planlang.Plan:
    text = SOURCES[name]
    return planlang.load(name) if text is None else planlang.loads(text.text, **dict(text.options))


def settings(name: str) -> dict[str, Any]:
    text = SOURCES[name]
    return {} if text is None else {"model": text.model or None, "tp": text.tp}


def emitted(name: str) -> str:
    return planlang.compile(loaded(name), **settings(name))


def imported(text: str, folder: Path) -> ModuleType:
    """The emitted module, as a consumer imports it."""
    path = folder / "emitted.py"
    path.write_text(text, encoding="utf-8", newline="")
    spec = importlib.util.spec_from_file_location("emitted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def facts(style: ParallelStyle) -> dict[str, Any]:
    """All that a style holds; its `repr` leaves some of it out."""
    held = {name: facts(value) if isinstance(value, ParallelStyle) else value for name, value in vars(style).items()}
    return {"class": type(style), **held}


def ruff(*arguments: str, text: str, folder: Path) -> None:
    """Has ruff read a text, away from this project's settings and modules."""
    command = [str(RUFF), *arguments, "--isolated", "--no-cache", "--stdin-filename", "emitted.py", "-"]
    done = subprocess.run(command, input=text.encode(), cwd=folder, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def check_module(text: str, plan: planlang.Plan, folder: Path, **settings: Any) -> None:
    """All that must hold of every emitted module."""
    ruff("format", "--diff", text=text, folder=folder)
    ruff("check", "--select", "E9,F,I", text=text, folder=folder)
    module = imported(text, folder)
    styles = plan.styles(**settings)
    assert repr(module.PLAN) == repr(styles)
    assert {key: facts(style) for key, style in module.PLAN.items()} == {key: facts(s) for key, s in styles.items()}
    assert list(module.PLAN) == list(styles)
    name = plan.resolved(**settings).name
    assert repr(vars(module).get(f"{name}_", vars(module).get(name))()) == repr(styles)
    assert module.PLAN is not module.PLAN
    with pytest.raises(AttributeError, match="no attribute 'NO_SUCH_PLAN'"):
        _ = module.NO_SUCH_PLAN


@pytest.mark.parametrize("name", SOURCES)
def test_the_module_is_formatted_and_gives_the_styles_of_the_plan(name: str, tmp_path: Path) -> None:
    check_module(emitted(name), loaded(name), tmp_path, **settings(name))


@pytest.mark.parametrize("name", ODDITIES)
def test_oddities(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("Zeta", "alpha"):
        (tmp_path / f"{module}.py").write_text("from custom_styles import Scaled as Scaled\n")
    monkeypatch.syspath_prepend(tmp_path)
    plan = planlang.loads(ODDITIES[name].text)
    folder = tmp_path / "away"
    folder.mkdir()
    check_module(planlang.compile(plan), plan, folder)


def test_the_styles_and_arguments_above_are_all_that_there_are() -> None:
    """A new style or argument needs a plan in `TEXTS`."""
    from planlang.plan.ir import Rule
    from planlang.plan.styles import STYLES, Custom, Style, arguments_of

    changed: dict[type[Style], set[str]] = {cls: set() for cls in STYLES.values()}
    for name in TEXTS:
        for entry in loaded(name).resolved(**settings(name)).entries:
            if isinstance(entry, Rule):
                style = entry.style
                names = (
                    ["arguments"] if isinstance(style, Custom) else [f.name for f in arguments_of(type(style)).values()]
                )
                default = Custom(path="") if isinstance(style, Custom) else type(style)()
                changed[type(style)] |= {each for each in names if getattr(style, each) != getattr(default, each)}
    assert changed.pop(Custom) == {"arguments"}
    for cls, names in changed.items():
        assert {f.name for f in arguments_of(cls).values()} - {"axis"} <= names, cls.word
    assert "axis" in changed[STYLES["colwise"]]


_ELSEWHERE = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from test_python import SOURCES, emitted
json.dump({name: emitted(name) for name in SOURCES}, sys.stdout)
"""


@pytest.mark.slow
def test_the_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    here = {name: emitted(name) for name in SOURCES}
    for seed, folder in (("0", tmp_path), ("4242", HERE)):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8", "PLANLANG_CACHE_DIR": ""}
        done = subprocess.run(
            [sys.executable, "-c", _ELSEWHERE, str(HERE)],
            cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == here


def test_no_path_of_the_machine_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
              "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8, "intermediate_size": 96}  # fmt: skip
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "base.plan").write_text(plan("model.norm: sequence", name="base"))
    (folder / "my.plan").write_text(plan('extends "base.plan"\nlm_head: colwise'))
    monkeypatch.chdir(folder)
    texts = {
        planlang.compile(path, model=model)
        for path in ("my.plan", "./my.plan", folder / "my.plan", str(folder / "my.plan"))
        for model in ("config.json", "./config.json", str(folder / "config.json"))
    }
    (text,) = texts
    assert "Made from my.plan by" in text
    texts.add(planlang.compile("my.plan", model=str(folder)))
    for text in texts | {emitted(name) for name in BUNDLED}:
        for part in (*folder.parts[1:-1], *HERE.parent.parent.parts[1:]):
            assert f"/{part}" not in text
            assert f"{part}/" not in text


def test_the_docstring_names_the_model_and_what_it_was_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 1}
    (tmp_path / "moe").mkdir()
    (tmp_path / "moe" / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    head = planlang.loads(plan("lm_head: colwise").replace("Qwen3ForCausalLM", "Qwen3MoeForCausalLM"))
    for model, shown in {
        "moe/config.json": "moe/config.json", "./moe/config.json": "moe/config.json", "moe": "moe", "moe/": "moe",
        str(tmp_path / "moe"): "moe", str(tmp_path / "moe" / "config.json"): "config.json",
        f"../{tmp_path.name}/moe": "moe", "Qwen/Qwen3-30B-A3B": "Qwen/Qwen3-30B-A3B",
    }.items():  # fmt: skip
        assert f"\nFor Qwen3MoeForCausalLM ({shown}).\n" in planlang.compile(head, model=model), model
    monkeypatch.chdir(tmp_path / "moe")
    assert "\nFor Qwen3MoeForCausalLM.\n" in planlang.compile(head, model=".")
    assert f"\nMade from a text by planlang {__version__}.\n" in planlang.compile(head)
    named = planlang.loads(plan("lm_head: colwise"), name="/some/folder/x.plan")
    assert f"\nMade from x.plan by planlang {__version__}: change that file, not this one.\n" in planlang.compile(named)
    assert f"\nMade from planlang.plans.qwen by planlang {__version__}: change that, not" in planlang.compile(
        "planlang.plans.qwen", model="Qwen/Qwen3-8B"
    )


def test_what_comes_from_standard_input_names_no_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "planlang", "compile", "-"],
        input=plan("lm_head: colwise"), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert f"\nMade from standard input by planlang {__version__}.\n" in done.stdout
    assert "<stdin>" not in done.stdout


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled(name: str, update: bool) -> None:
    written = re.sub(rf"planlang {re.escape(__version__)}\b", "planlang VERSION", emitted(name))
    expected = EXPECTED / f"{name}.txt"
    if update:
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(written, encoding="utf-8", newline="\n")
    assert written == expected.read_text(encoding="utf-8")
