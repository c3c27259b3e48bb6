"""Reads plans from disk and follows `extends`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from planlang import resources
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, did_you_mean, nearest, or_list
from planlang.source import Place, Source, printable
from planlang.syntax.nodes import Broken, Extends, File
from planlang.syntax.parser import parse

MOST_BYTES = 2**20  # some 13,000 rules; the bundled plans have a dozen
MOST_EXTENDED = 32
_OTHER_LANGUAGES = {".yaml": "YAML", ".yml": "YAML", ".json": "JSON", ".py": "Python"}


@dataclass(frozen=True, slots=True)
class Unit:
    """One file of a plan: its text and its tree."""

    source: Source
    file: File


@dataclass(frozen=True, slots=True)
class Program:
    """A plan as it was written: its own file first, then the one it extends, and so on."""

    units: tuple[Unit, ...]

    @property
    def source(self) -> Source:
        """The text of the plan itself."""
        return self.units[0].source


def read_source(path: Path, name: str = "", *, place: Place | None = None) -> Source | Finding:
    """The text of a file, or why it cannot be one.

    Args:
        path: the file.
        name: how to show it; the path as given where empty.
        place: what asked for it, if a plan did.
    """
    shown = name or os.fspath(path)
    said = printable(shown)
    try:
        if path.is_dir():
            help_ = f"name a file in it, such as `{said.rstrip('/')}/my.plan`"
            return Finding(code=codes.UNREADABLE_FILE, message=f"`{said}` is a folder", place=place, help=help_)
        if path.exists() and not path.is_file():  # who reads a pipe may wait for ever
            help_ = "name a file; `-` reads standard input"
            message = f"`{said}` is a pipe or a device, not a file"
            return Finding(code=codes.UNREADABLE_FILE, message=message, place=place, help=help_)
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"`{said}` cannot be read: {reason.lower()}"
        return Finding(code=codes.UNREADABLE_FILE, message=message, place=place)
    if len(content) > MOST_BYTES:
        return _too_large(shown, place)
    return decode(content, shown, path, place=place)


def _too_large(name: str, place: Place | None) -> Finding:
    message = f"`{printable(name)}` is larger than {MOST_BYTES // 2**20} MiB, more than any plan needs"
    return Finding(code=codes.FILE_TOO_LARGE, message=message, place=place, help="is it the right file?")


def in_another_language(path: Path, *, place: Place | None = None) -> Finding | None:
    """A finding for a file that is data or Python by its name, where a text in the language is needed."""
    kind = _OTHER_LANGUAGES.get(path.suffix.lower())
    if kind is None:
        return None
    message = f"`{printable(str(path))}` is {kind}, not a plan in the language"
    help_ = f"name a `{resources.PLAN_SUFFIX}` file: resolved plans and modules are made from one"
    return Finding(code=codes.OTHER_FILE, message=message, place=place, help=help_)


def decode(content: bytes, name: str, path: Path | None = None, *, place: Place | None = None) -> Source | Finding:
    """Bytes as a source: UTF-8, with or without a byte-order mark, and no NUL."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"`{printable(name)}` is not UTF-8: line {line} holds the byte 0x{content[error.start]:02x}"
        return Finding(code=codes.NOT_TEXT, message=message, place=place, help="save it as UTF-8")
    if "\0" in text:
        message = f"`{printable(name)}` holds a NUL byte, so it is no text"
        return Finding(code=codes.NOT_TEXT, message=message, place=place, help="is it the right file?")
    return Source(name, text, path)


def find(reference: str, beside: Path | None) -> Path | None:
    """The file that a reference means: a path relative to `beside`, or the name of a bundled plan."""
    try:
        path = (beside / reference) if beside else Path(reference)
        if path.exists() or path.suffix == resources.PLAN_SUFFIX or os.sep in reference:
            return path
    except (OSError, ValueError):
        return None
    return resources.bundled_plans().get(reference)


def load(source: Source) -> tuple[Program, tuple[Finding, ...]]:
    """A plan with every plan that it extends."""
    if len(source.text) > MOST_BYTES:
        return Program((Unit(source, File(statements=(Broken(),))),)), (_too_large(source.name, None),)
    units: list[Unit] = []
    findings: list[Finding] = []
    seen = [_identity(source.path)]
    following: Source | None = source
    while following is not None:
        file, found = parse(following)
        units.append(Unit(following, file))
        findings += found
        extends = next((line for line in file.statements if isinstance(line, Extends)), None)
        result = _base(following, extends, seen) if extends else None
        if isinstance(result, Finding):
            findings.append(result)
            result = None
        following = result
    return Program(tuple(units)), tuple(findings)


def _base(source: Source, extends: Extends, seen: list[str]) -> Source | Finding:
    """The source that an `extends` names; it is added to what was seen."""
    reference = str(extends.target.value)
    place = source.place(extends.target.span)
    other = in_another_language(Path(reference), place=place)
    if other:
        return other
    path = find(reference, source.path.parent if source.path else None)
    if path is None:
        names = resources.bundled_plans()
        otherwise = f"the bundled plans are {', '.join(f'`{name}`' for name in names)}; a file is named with `.plan`"
        message = f"`{printable(reference)}` is neither a file nor a bundled plan"
        help_ = did_you_mean(reference, names, otherwise)
        return Finding(code=codes.UNKNOWN_PLAN, message=message, place=place, help=help_)
    identity = _identity(path)
    if identity in seen or len(seen) >= MOST_EXTENDED:
        message = (
            f"`{printable(reference)}` is extended by itself"
            if identity in seen
            else "too many plans extend one another"
        )
        help_ = "remove this line, or move what both plans share into a third"
        return Finding(code=codes.INCLUDE_CYCLE, message=message, place=place, help=help_)
    seen.append(identity)
    name = f"plan {reference}" if path == resources.bundled_plans().get(reference) else _beside(source, reference)
    found = read_source(path, name, place=place)
    if isinstance(found, Finding) and not found.help:
        return replace(found, help=near_plans(path, reference))
    return found


def near_plans(path: Path, written: str) -> str:
    """What a path to a plan that is not there was likely meant to be; empty where nothing is near.

    Args:
        path: where it was looked for.
        written: how the user wrote it.
    """
    try:
        if path.exists():
            return ""
        stems = [each.stem for each in path.parent.glob(f"*{resources.PLAN_SUFFIX}")]
    except (OSError, ValueError):
        return ""
    beside = [str(Path(written).with_name(f"{stem}{resources.PLAN_SUFFIX}")) for stem in nearest(path.stem, stems)]
    near = beside or nearest(path.stem, resources.bundled_plans())
    return f"did you mean {or_list(near)}?" if near else ""


def _beside(source: Source, reference: str) -> str:
    """How to show a file that `source` names: relative to where the user stands, as `source` itself is."""
    folder = os.path.dirname(source.name)  # noqa: PTH120 (a name to show, not a path)
    return os.path.normpath(os.path.join(folder, reference)) if folder else reference  # noqa: PTH118


def _identity(path: Path | None) -> str:
    """What two names of one file have in common; a name that no file can have is its own."""
    try:
        return os.path.realpath(path) if path else ""
    except ValueError:
        return repr(path)
