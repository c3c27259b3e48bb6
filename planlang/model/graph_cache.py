"""Trees and graphs of models that the catalog lacks, kept in the user's cache directory: making them takes seconds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from planlang import resources
from planlang.model import store
from planlang.model.packing import SCHEMA, dump
from planlang.model.template import Graphs, unpack
from planlang.model.tree import Tree
from planlang.version import __version__


def cached(about: Mapping[str, Any], make: Callable[[], Any]) -> Graphs:
    """The graphs that were kept, or those that `make` makes, which are kept then.

    A file that cannot be read or is not what was written counts for nothing, and one that cannot be written is not.

    Args:
        about: what decides the graphs: configuration, class. The versions of all that takes part are added here.
        make: the document of one model, called "" (`planlang.model.packing`).
    """
    return unpack(json.loads(_kept("graphs", {**about, "schema": SCHEMA}, lambda: dump(make()))), "")


def cached_tree(about: Mapping[str, Any], make: Callable[[], Tree]) -> Tree:
    """The same for the tree of a model, with what its forward pass told of calls."""
    text = _kept("trees", {**about, "schema": store.SCHEMA}, lambda: store.dump({"": make()}))
    return store.load(text)[""]


def _kept(kind: str, about: Mapping[str, Any], make: Callable[[], str]) -> str:
    """The text that was kept of a kind, or the one that `make` makes."""
    parts = {**about, "planlang": __version__, **{name: _version(name) for name in ("torch", "transformers")}}
    key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
    folder = _folder(kind)
    found = _read(folder / f"{key}.{kind}", key) if folder else None
    if found is None:
        found = make()
        if folder:
            _write(folder / f"{key}.{kind}", f"{_digest(key, found)}\n{found}")
    return found


def _folder(kind: str) -> Path | None:
    above = resources.cache_directory()
    if above is None:
        return None
    folder = above / kind
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


def _read(path: Path, key: str) -> str | None:
    """The text in a file, or `None` where the file is not as it was written for this key."""
    try:
        digest, _, text = path.read_text(encoding="utf-8", errors="surrogatepass").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if digest == _digest(key, text) else None


def _write(path: Path, content: str) -> None:
    """Writes a file so that others see all of it or nothing."""
    import tempfile

    try:
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink()
    except OSError:  # a full disk, a folder that has become read-only
        return


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode(errors="surrogatepass")).hexdigest()


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
