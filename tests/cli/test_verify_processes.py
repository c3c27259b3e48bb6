"""`verify --processes`: the same runs on real processes, and nothing of them left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import planlang
from planlang.analysis.flow.applied import applied_styles
from planlang.cli.main import run
from planlang.loaded import tree_named
from planlang.runtime.verify.cases import cases
from planlang.runtime.verify.configured import configured
from planlang.runtime.verify.memory import needed
from planlang.runtime.verify.twin import twin_of

pytestmark = pytest.mark.slow
QWEN3 = "Qwen/Qwen3-0.6B"
FORGOTTEN = """\
plan forgotten for Qwen3ForCausalLM

*.self_attn.{q,k,v}_proj: colwise
*.self_attn.o_proj:       rowwise
"""
STYLES = '''
"""Styles that do on one rank of real processes what no style should."""
import os, signal, time
from torch.distributed.tensor.parallel import ParallelStyle

class Broken(ParallelStyle):
    def _apply(self, module, mesh):
        module.register_forward_hook(lambda *_: self.act() if os.environ.get("RANK") == "1" else None)
        return module

class Dies(Broken):
    def act(self):
        os.kill(os.getpid(), signal.SIGSEGV)

class Hangs(Broken):
    def act(self):
        time.sleep(1000)
'''


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go in a test, so that what is left there is seen; two circumstances are enough."""
    monkeypatch.setattr("planlang.runtime.verify.cases.cases", lambda ranks: (cases(ranks)[0], cases(ranks)[2]))
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def only(found: planlang.Verified) -> planlang.Finding:
    (finding,) = [each for each in found.findings if each.severity == "error"]
    return finding


def test_a_right_plan_is_right_and_a_wrong_one_is_wrong_in_the_same_way(files: Path) -> None:
    found = planlang.verify("qwen", QWEN3, processes=2)
    assert found.ok
    assert [(result.ranks, result.right) for result in found.results] == [(2, True)] * 2
    assert found.results[0].outcome.stepped > 0
    found = planlang.verify(planlang.loads(FORGOTTEN), QWEN3, processes=2)
    simulated = planlang.verify(planlang.loads(FORGOTTEN), QWEN3, tp=2)
    assert only(found).code.number == only(simulated).code.number == "PLN5007"
    assert "it fails so with nothing but" in "\n".join(only(found).notes)
    wrong = [[each.name for each in result.outcome.gradients] for result in (found.results[0], simulated.results[0])]
    assert sorted(wrong[0]) == sorted(wrong[1])
    assert not list(files.glob("planlang-*"))


@pytest.mark.parametrize(
    ("style", "said"), [("Dies", "a process was ended by SIGSEGV"), ("Hangs", "it was ended after 20 seconds")]
)
def test_a_rank_that_dies_or_hangs_is_a_finding(
    style: str, said: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_styles.py").write_text(STYLES)
    monkeypatch.syspath_prepend(str(tmp_path))
    plan = planlang.loads(f'{FORGOTTEN}*.mlp: custom "bad_styles:{style}"\n')
    found = planlang.verify(plan, QWEN3, processes=2, limit=20)
    assert [result.outcome.verdict for result in found.results] == ["crash", "crash"]
    assert only(found).code.number == "PLN4021"
    assert said in only(found).message
    assert not list(files.glob("planlang-*"))


def alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process_and_no_file(number: signal.Signals, files: Path) -> None:
    command = [sys.executable, "-m", "planlang", "verify", "qwen", "--model", QWEN3, "--processes", "2"]
    environment = os.environ | {"TMPDIR": str(files)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 300
            while len(started := list(files.glob("planlang-*/pid.*"))) < 2:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            ranks = [int(path.read_text()) for path in started]
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert not said.strip()
    assert len(children) == 1
    assert not any(map(alive, [*ranks, *map(int, children)]))
    assert not list(files.glob("planlang-*"))


def test_ranks_that_are_processes_need_more_memory() -> None:
    compiled = planlang.load("qwen").compile(tree := tree_named(QWEN3, None), tp=4)
    styles = {name: each.style for name, each in applied_styles(compiled.assignments[0], "tp").items()}
    twin = twin_of(*configured(QWEN3, tree), tree, styles, (4,), full=True)
    assert needed(tree, twin, 4, own=True) * 22 == needed(tree, twin, 4) * 40  # copies


def test_devices_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "qwen", "--model", QWEN3, "--processes", "1024", "--device", "cuda"]) == 2
    assert "error[PLN0016]: 1024 processes on `cuda` need a GPU each" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--processes", "2", "--tp", "4"], ["--device", "cuda"]])
def test_options_that_do_not_fit_together(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "qwen", "--model", QWEN3, *options]) == 2
    assert "--processes" in capsys.readouterr().err
    with pytest.raises(ValueError, match="processes"):
        planlang.verify("qwen", QWEN3, processes=2, tp=4)
    for odd in ({"workers": -1}, {"processes": -1}, {"limit": 0.0}, {"limit": float("nan")}):
        with pytest.raises(ValueError, match="negative"):
            planlang.verify("qwen", QWEN3, tp=2, **odd)
    with pytest.raises(ValueError, match="cuda"):
        planlang.verify("qwen", QWEN3, device="cuda")
