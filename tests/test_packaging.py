"""The wheel and the sdist hold what they should, and the wheel works where neither torch nor the checkout is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import planlang
from planlang import resources
from planlang.version import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
SMALL_CONFIG = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 2}


def run(*command: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a command without what this process has on its paths."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PLANLANG", "VIRTUAL"))
    }
    return subprocess.run(command, cwd=cwd, env={**clean, **environment}, capture_output=True, check=False, timeout=300)


def succeed(*command: str, cwd: Path = ROOT) -> bytes:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout


@dataclass(frozen=True)
class Built:
    """What `python -m build` makes: the sdist, the wheel made from it, and the wheel made from the checkout."""

    sdist: Path
    wheel: Path
    direct: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder, direct = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("direct")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
    succeed(*build, str(folder))
    succeed(*build, str(direct), "--wheel")
    (sdist,), (wheel,), (other,) = folder.glob("*.tar.gz"), folder.glob("*.whl"), direct.glob("*.whl")
    return Built(sdist, wheel, other)


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_everything(built: Built) -> None:
    names = names_in(built.wheel)
    package = ROOT / "planlang"
    modules = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.py")}
    assert len(modules) > 50
    assert modules <= names
    assert {f"planlang/_bundled/plans/{name}.plan" for name in resources.bundled_plans()} <= names
    assert {"planlang/_bundled/grammars/plan.lark", "planlang/py.typed"} <= names
    for folder, kind in (("model/data", "json"), ("diagnostics/docs", "md")):
        files = {path.relative_to(ROOT).as_posix() for path in (package / folder).glob(f"*.{kind}")}
        assert len(files) > 30
        assert files <= names
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"planlang", f"planlang-{__version__}.dist-info"}
    assert not any("__pycache__" in name for name in names)


def test_the_wheel_made_from_the_sdist_is_the_one_made_from_the_checkout(built: Built) -> None:
    assert built.wheel.name == built.direct.name
    assert names_in(built.wheel) == names_in(built.direct)
    with zipfile.ZipFile(built.wheel) as one, zipfile.ZipFile(built.direct) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


def test_the_sdist_holds_the_sources_and_nothing_of_this_machine(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml", "constraints.txt", "grammars/plan.lark"} <= names
    assert {"plans/qwen.plan", "docs/language.md", "tests/test_packaging.py", "planlang/py.typed"} <= names
    hidden = {name for name in names if any(part.startswith(".") for part in Path(name).parts)}
    assert hidden <= {".gitignore"}
    assert not any("__pycache__" in name or name.startswith("dist/") for name in names)


@dataclass(frozen=True)
class Installed:
    """An environment with planlang and what it needs at least."""

    bin: Path
    folder: Path

    def planlang(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return run(str(self.bin / "planlang"), *arguments, cwd=self.folder, PLANLANG_CACHE_DIR="", COLUMNS="200")

    def python(self, code: str) -> subprocess.CompletedProcess[bytes]:
        return run(str(self.bin / "python"), "-c", code, cwd=self.folder)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own, without torch and transformers."""
    folder = tmp_path_factory.mktemp("installed")
    succeed(sys.executable, "-m", "venv", str(folder / "venv"))
    pip = (str(folder / "venv/bin/python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    succeed(*pip, "--no-deps", str(built.wheel), cwd=folder)
    succeed(*pip, "-c", str(ROOT / "constraints.txt"), "click", "lark", "pyyaml", "rich", cwd=folder)
    work = folder / "work"
    work.mkdir()
    return Installed(folder / "venv/bin", work)


def test_torch_is_not_there_and_the_checkout_is_not_used(installed: Installed) -> None:
    assert b"No module named 'torch'" in installed.python("import torch").stderr
    assert b"No module named 'transformers'" in installed.python("import transformers").stderr
    where = installed.python("import planlang; print(planlang.__file__)").stdout.decode()
    assert Path(where).is_relative_to(installed.bin.parent)


def test_a_bundled_plan_compiles_to_the_same_bytes(installed: Installed) -> None:
    for name in resources.bundled_plans():
        done = installed.planlang("compile", name)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == planlang.compile(name).encode()


def test_a_plan_is_shown_on_a_model(installed: Installed) -> None:
    done = installed.planlang("show", "qwen_stable", "--model", "Qwen/Qwen3-8B", "--tp", "8")
    assert done.returncode == 0, done.stderr.decode()
    assert b"qwen_stable on Qwen/Qwen3-8B (Qwen3ForCausalLM), mesh tp=8" in done.stdout
    assert b"model.layers.*.self_attn.q_proj" in done.stdout


def test_the_other_commands_work(installed: Installed) -> None:
    explained = installed.planlang("explain", "PLN3001")
    assert explained.returncode == 0, explained.stderr.decode()
    assert b"PLN3001" in explained.stdout
    assert b"Qwen/Qwen3-8B" in installed.planlang("models").stdout
    (installed.folder / "my.plan").write_text("plan my for Qwen3ForCausalLM\nlm_head :colwise\n")
    assert installed.planlang("fmt", "my.plan").returncode == 0
    assert (installed.folder / "my.plan").read_text().endswith("\nlm_head:  colwise\n")


def refused(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a command says that ends with a finding, not with a failure of planlang's own."""
    said = done.stderr.decode()
    assert done.returncode in (1, 2), said
    assert "error[PLN" in said
    assert "PLN9001" not in said
    assert "Traceback" not in said
    return said


def test_a_configuration_without_torch_is_a_finding(installed: Installed) -> None:
    (installed.folder / "config.json").write_text(json.dumps(SMALL_CONFIG))
    said = refused(installed.planlang("show", "qwen", "--model", "config.json"))
    assert "torch" in said or "transformers" in said


def test_a_class_outside_the_catalog_without_torch_is_a_finding(installed: Installed) -> None:
    (installed.folder / "llama.plan").write_text("plan llama for LlamaForCausalLM\n\n*.q_proj: colwise\n")
    said = refused(installed.planlang("compile", "llama.plan"))
    assert "LlamaForCausalLM" in said
    assert "torch" in said or "transformers" in said
