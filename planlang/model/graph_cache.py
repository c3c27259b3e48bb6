"""Graphs of models that the catalog lacks, kept in the user's cache directory, since a capture takes seconds."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from planlang import resources
from planlang.model.packing import SCHEMA, dump
from planlang.model.template import Graphs, unpack
from planlang.version import __version__


def cached(about: Mapping[str, Any], make: Callable[[], Any]) -> Graphs:
    """The graphs that were kept, or those that `make` makes, which are kept then.

    A file that cannot be read or is not what was written counts for nothing, and one that cannot be written is not.

    Args:
        about: what decides the graphs: configuration, class. The versions of all that takes part are added here.
        make: the document of one model, called "" (`planlang.model.packing`).
    """
    parts = {
        **about,
        "schema": SCHEMA,
        "planlang": __version__,
        **{name: _version(name) for name in ("torch", "transformers")},
    }
    key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
    folder = _folder()
    found = _read(folder / f"{key}.graphs", key) if folder else None
    if found is None:
        text = dump(make())
        if folder:
            _write(folder / f"{key}.graphs", f"{_digest(key, text)}\n{text}")
        found = json.loads(text)
    return unpack(found, "")


def _folder() -> Path | None:
    above = resources.cache_directory()
    if above is None:
        return None
    folder = above / "graphs"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


def _read(path: Path, key: str) -> Any:
    """The document in a file, or `None` where the file is not as it was written for this key."""
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return json.loads(text) if digest == _digest(key, text) else None


def _write(path: Path, content: str) -> None:
    """Writes a file so that others see all of it or nothing."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink()
    except OSError:  # a full disk, a folder that has become read-only
        return


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
