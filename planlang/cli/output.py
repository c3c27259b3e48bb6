"""Where `planlang compile` writes: which target a file name asks for, and which files are never written over."""

from __future__ import annotations

import keyword
import os
from collections.abc import Iterable
from pathlib import Path

import click

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.resources import PLAN_SUFFIX
from planlang.source import printable

STDOUT = "-"
DEFAULT_TARGET = "python"
_TARGETS = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
# What an emitted module imports itself: a file of that name beside it would be imported instead.
_IMPORTED = ("torch", "planlang")


def chosen_target(target: str | None, output: str | None) -> str:
    """The target that `-t` names, or that the suffix of the output asks for.

    Raises:
        click.UsageError: the two differ.
    """
    suffix = Path(output).suffix.lower() if output else ""
    asked = _TARGETS.get(suffix)
    if target and asked and target != asked:
        raise click.UsageError(
            f"-t {target} does not fit -o {output}: `{suffix}` is for -t {asked}; leave -t out, or name another file"
        )
    return target or asked or DEFAULT_TARGET


def check_output(output: str, target: str, inputs: Iterable[Path]) -> tuple[Finding, ...]:
    """What is against writing to a file: an error where it would be one of the inputs, a plan or a folder.

    Args:
        output: the file as it was given.
        target: what is written.
        inputs: the files that were read.
    """
    path = Path(output)
    real = _real(path)
    if output.endswith(("/", os.sep)) and not path.is_dir():
        return (_refused(output, "it names a folder", f"name a file in it, such as `{printable(output)}my_plan.py`"),)
    for each in inputs:
        if real == _real(each) or _one_file(path, each):
            return (_refused(output, "the plan is made from this file", "name another file with `-o`"),)
    if PLAN_SUFFIX in (path.suffix.lower(), real.suffix.lower()):
        why = f"`{PLAN_SUFFIX}` is for plans as they are written"
        return (_refused(output, why, "name a file with the suffix `.py`, `.yaml` or `.json`"),)
    return tuple(_check_module(path)) if target == "python" and path.suffix == ".py" else ()


def _check_module(path: Path) -> Iterable[Finding]:
    name = path.stem
    shown, word = printable(path.name), printable(name)
    if not name.isidentifier() or keyword.iskeyword(name):
        message = f"`{shown}` cannot be imported: `{word}` is no name in Python, nor in a dotted path"
    elif name in _IMPORTED:
        message = f"`{shown}` would be imported in place of `{name}`, which it needs itself"
    else:
        return
    better = "".join(char if char.isalnum() else "_" for char in name).strip("_")
    better = better if better.isidentifier() and not keyword.iskeyword(better) and better != name else "my_plan"
    yield Finding(code=codes.UNIMPORTABLE_MODULE, message=message, help=f"write it to `{better}.py`")


def _refused(output: str, why: str, help: str) -> Finding:
    return Finding(code=codes.UNWRITABLE_OUTPUT, message=f"`{printable(output)}` is not written: {why}", help=help)


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # a circle of links, or a name that no file has
        return path


def _one_file(one: Path, other: Path) -> bool:
    """Whether two names are of one file, also by a hard link or in a file system that ignores case."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
