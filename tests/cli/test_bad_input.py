"""Bad input ends in a finding and exit code 1 or 2, never in a traceback."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from planlang.cli.main import run

GOOD = "plan good for Qwen3ForCausalLM\noption n = 4\noption sp = true\n*.mlp.up_proj: colwise\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.plan").write_text(GOOD)
    return tmp_path


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    """The exit code, the codes found and all that was said."""
    code = run([*arguments, "--format", "json"])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    said = json.loads(err) if err.startswith("{") else {"findings": []}
    return code, [finding["code"] for finding in said["findings"]], err


def write(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


FILES: dict[str, tuple[str | bytes, str, int]] = {
    "empty": ("", "PLN1006", 1),
    "comments": ("# nothing\n\n# here\n", "PLN1006", 1),
    "latin": ("plan x for A # caf\xe9".encode("latin-1"), "PLN0002", 2),
    "nul": (b"plan x\0 for A\n", "PLN0002", 2),
    "binary": (bytes(range(256)) * 4, "PLN0002", 2),
    "huge": (b"# " + b"x" * 50_000_000, "PLN0003", 2),
    "deep": ("plan x for Qwen3ForCausalLM\na: colwise(in=" + "(" * 10_000 + ")" * 10_000 + ")\n", "PLN1008", 1),
    "digits": (f"plan x for Qwen3ForCausalLM\n*.up_proj: colwise(out=shard({'9' * 1000}))\n", "PLN1009", 1),
    "mesh": (f"plan x for Qwen3ForCausalLM\nmesh (tp={'9' * 5000})\n*.up_proj: colwise\n", "PLN1009", 1),
    "option": (f"plan x for Qwen3ForCausalLM\noption n = {'9' * 5000}\n*.up_proj: colwise\n", "PLN1009", 1),
    "range": ("plan x for Qwen3ForCausalLM\nmodel.layers.{0..10000000000}.mlp.up_proj: colwise\n", "PLN3005", 1),
    "wide": ("plan x for Qwen3ForCausalLM\nmodel.layers.{0..999999}.mlp.up_proj: colwise\n", "PLN3005", 1),
    "cycle": ('plan x for Qwen3ForCausalLM\nextends "cycle.plan"\n*.up_proj: colwise\n', "PLN0004", 2),
    "unbased": ('plan x for Qwen3ForCausalLM\nextends "nowhere.plan"\n*.up_proj: colwise\n', "PLN0001", 2),
    "unnamed": ('plan x for Qwen3ForCausalLM\nextends "qwne"\n*.up_proj: colwise\n', "PLN0005", 2),
    "folder": ('plan x for Qwen3ForCausalLM\nextends "."\n*.up_proj: colwise\n', "PLN0001", 2),
    "class": ("plan x for Qwen3ForCausalLn\n*.up_proj: colwise\n", "PLN3009", 1),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["compile", "show"])
def test_files(capsys: pytest.CaptureFixture[str], name: str, command: str) -> None:
    content, wanted, exit_code = FILES[name]
    code, found, said = findings(capsys, command, write(f"{name}.plan", content))
    assert (code, found) == (exit_code, [wanted]), said


@pytest.mark.parametrize("name", ["latin", "nul", "huge", "deep", "digits"])
def test_fmt_leaves_such_files_alone(capsys: pytest.CaptureFixture[str], name: str) -> None:
    content, wanted, exit_code = FILES[name]
    path = Path(write(f"{name}.plan", content))
    before = path.read_bytes()
    code, found, said = findings(capsys, "fmt", str(path))
    assert (code, found) == (exit_code, [wanted]), said
    assert path.read_bytes() == before


def test_paths(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "folder.plan").mkdir()
    assert findings(capsys, "compile", "missing.plan")[:2] == (2, ["PLN0001"])
    assert findings(capsys, "compile", "folder.plan")[:2] == (2, ["PLN0001"])
    assert findings(capsys, "compile", "x" * 5000)[:2] == (2, ["PLN0005"])
    assert findings(capsys, "compile", "x" * 5000 + ".plan")[:2] == (2, ["PLN0001"])
    assert findings(capsys, "fmt", "missing.plan")[:2] == (2, ["PLN0001"])
    assert findings(capsys, "compile", "")[:2] == (2, ["PLN0005"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "good.plan").chmod(0)
    assert findings(capsys, "compile", "good.plan")[:2] == (2, ["PLN0001"])


def test_cycles(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
        write(f"{name}.plan", f'plan {name} for Qwen3ForCausalLM\nextends "{base}.plan"\n*.up_proj: colwise\n')
    code, found, said = findings(capsys, "compile", "a.plan")
    assert (code, found) == (2, ["PLN0004"]), said
    assert json.loads(said)["findings"][0]["file"] == "c.plan"
    write("loop.plan", 'plan loop for Qwen3ForCausalLM\nextends "link.plan"\n*.up_proj: colwise\n')
    (here / "link.plan").symlink_to("loop.plan")
    assert findings(capsys, "compile", "loop.plan")[:2] == (2, ["PLN0004"])
    (here / "self.plan").symlink_to("self.plan")
    assert findings(capsys, "compile", "self.plan")[:2] == (2, ["PLN0001"])


def test_models(capsys: pytest.CaptureFixture[str]) -> None:
    write("config.json", "{not json")
    write("odd.json", '{"model_type": "no_such_model"}')
    assert findings(capsys, "compile", "good.plan", "--model", "Qwen/Qwen9-8B")[:2] == (2, ["PLN0009"])
    assert findings(capsys, "compile", "good.plan", "--model", "config.json")[:2] == (2, ["PLN0010"])
    assert findings(capsys, "compile", "good.plan", "--model", "odd.json")[:2] == (2, ["PLN0011"])
    assert findings(capsys, "compile", "good.plan", "--model", ".")[:2] == (2, ["PLN0010"])
    assert findings(capsys, "compile", "good.plan", "--model", "Qwen/Qwen3-8B", "--as", "Nope")[:2] == (2, ["PLN0011"])


@pytest.mark.parametrize(
    ("assignments", "code", "found"),
    [
        (["m=3"], 1, ["PLN2010"]),
        (["n=three"], 1, ["PLN2011"]),
        (["n=" + "9" * 5000], 1, ["PLN2011"]),
        (["sp=yes"], 1, ["PLN2011"]),
        (["sp=1", "n=x"], 1, ["PLN2011", "PLN2011"]),
        (["n"], 2, []),
        (["=3"], 2, []),
    ],
)
def test_options(capsys: pytest.CaptureFixture[str], assignments: list[str], code: int, found: list[str]) -> None:
    arguments = [part for assignment in assignments for part in ("-D", assignment)]
    assert findings(capsys, "compile", "good.plan", *arguments)[:2] == (code, found)


def test_options_of_the_right_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", "good.plan", "-D", "n=-3", "-D", "sp=false"]) == 0
    assert "Options: n=-3, sp=false." in capsys.readouterr().out


@pytest.mark.parametrize("size", ["0", "-1", "two", "9" * 40])
def test_sizes(size: str) -> None:
    assert run(["compile", "good.plan", "--tp", size]) == 2


def test_outputs(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    assert findings(capsys, "compile", "good.plan", "-o", "no/such/folder/x.py")[:2] == (2, ["PLN0006"])
    assert findings(capsys, "compile", "good.plan", "-o", ".")[:2] == (2, ["PLN0006"])
    read_only = Path(write("kept.py", "kept"))
    read_only.chmod(stat.S_IRUSR)
    assert findings(capsys, "compile", "good.plan", "-o", "kept.py")[:2] == (2, ["PLN0006"])
    assert read_only.read_text() == "kept"
    assert findings(capsys, "compile", "good.plan", "-o", "good.plan/x.py")[:2] == (2, ["PLN0006"])
    assert sorted(path.name for path in here.iterdir()) == ["good.plan", "kept.py"], "nothing half-written is left"


def test_nothing_is_written_when_there_is_an_error(here: Path) -> None:
    write("bad.plan", GOOD + "*.mlp.up_prj: colwise\n")
    Path("out.py").write_text("kept")
    assert run(["compile", "bad.plan", "-o", "out.py"]) == 1
    assert Path("out.py").read_text() == "kept"


def test_fmt_keeps_the_mode_and_the_link(here: Path) -> None:
    real = Path(write("real.plan", "plan   x for A\n"))
    real.chmod(0o640)
    (here / "link.plan").symlink_to("real.plan")
    assert run(["fmt", "link.plan"]) == 0
    assert real.read_text() == "plan x for A\n"
    assert (here / "link.plan").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "arguments", [["shwo", "x"], ["compile"], ["good.plan"], ["explain", "PLN9999"], ["models", "zzz"]]
)
def test_calls(arguments: list[str]) -> None:
    assert run(arguments) == 2


PIPES = [
    ["compile", "qwen_stable"],
    ["show", "qwen_stable", "--model", "Qwen/Qwen3-8B"],
    ["explain"],
    ["models", "--json"],
]


@pytest.mark.parametrize("arguments", PIPES, ids=lambda arguments: arguments[0])
def test_a_pipe_that_is_closed_early(arguments: list[str]) -> None:
    script = f"{sys.executable} -m planlang {' '.join(arguments)} | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("arguments", PIPES, ids=lambda arguments: arguments[0])
def test_a_full_disk(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "planlang", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
            check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr


def test_loops_of_links_and_pipes(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "one.py").symlink_to("two.py")
    (here / "two.py").symlink_to("one.py")
    assert findings(capsys, "compile", "good.plan", "-o", "one.py")[:2] == (2, ["PLN0006"])
    assert findings(capsys, "compile", "good.plan", "-o", "one.py/x.py")[:2] == (2, ["PLN0006"])
    for name in ("pipe.plan", "pipe.yaml", "config.json"):
        os.mkfifo(name)
    assert findings(capsys, "compile", "pipe.plan")[:2] == (2, ["PLN0001"])
    assert findings(capsys, "compile", "pipe.yaml")[:2] == (2, ["PLN0001"])
    assert findings(capsys, "fmt", "pipe.plan")[:2] == (2, ["PLN0001"])
    assert findings(capsys, "compile", "good.plan", "--model", "config.json")[:2] == (2, ["PLN0010"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "good.plan", "-D", "n=1", "-D", "n=2"),
        ("show", "good.plan", "--model", "Qwen/Qwen3-0.6B", "--batch", "2"),
        ("show", "good.plan", "--dtype", "float32"),
    ],
)
def test_an_option_that_would_do_nothing(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert run(list(arguments)) == 2
    assert "-D n is given twice" in (err := capsys.readouterr().err) or "is about costs" in err


ODD = "a\x1b[31m\u202e"


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", f"{ODD}.plan"), ("compile", f"{ODD}.yaml"), ("compile", ODD), ("compile", f"{ODD}.py"), (ODD,),
        ("compile", "good.plan", "--model", ODD), ("compile", "good.plan", "-o", f"no/{ODD}.py"),
        ("compile", "good.plan", "-o", f"{ODD}.py"), ("compile", "good.plan", "-o", f"{ODD}.yaml", "-t", "python"),
        ("compile", "good.plan", "-D", ODD), ("compile", "good.plan", f"--{ODD}"), ("explain", ODD), ("models", ODD),
    ],
)  # fmt: skip
def test_nothing_that_a_terminal_acts_on_is_printed(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    run(list(arguments))
    out, err = capsys.readouterr()
    assert r"\x1b[31m\u202e" in err
    assert "\x1b" not in out + err


def test_help_does_not_propose_what_was_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write("config.json", '{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 2}')
    _, found, said = findings(capsys, "show", "good.plan", "--model", "config.json", "--as", "Qwen2ForCausalLM")
    assert found == ["PLN0011"]
    assert "`Qwen3ForCausalLM`" in json.loads(said)["findings"][0]["help"]
    assert "Qwen2ForCausalLM" not in json.loads(said)["findings"][0]["help"]


def test_a_working_directory_that_is_gone(here: Path) -> None:
    script = "mkdir gone; cd gone; rmdir ../gone; {0} compile qwen -o x.py; test $? = 2 && {0} compile qwen"
    program = f"{sys.executable} -m planlang"
    done = subprocess.run(["bash", "-c", script.format(program)], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"PLN9001" not in done.stderr
