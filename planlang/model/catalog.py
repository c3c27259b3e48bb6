"""The published Qwen checkpoints that planlang knows without torch: their names, sizes, module trees and graphs.

The data beside this module is made by `planlang.model.build_catalog`. A checkpoint is found by its name on the Hugging
Face Hub, with or without `Qwen/`, in any case. Variants of one name have one structure, so these endings are accepted
on every name and need no entry: `-Base`, `-Chat`, `-Instruct`, `-Thinking`, `-2507`, `-Instruct-2507` and
`-Thinking-2507`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any

from planlang.model.generalize import generalize
from planlang.model.store import load
from planlang.model.template import Graphs, unpack
from planlang.model.tree import Tree

DATA = Path(__file__).parent / "data"
OWNER = "Qwen/"
_VARIANT = re.compile(r"-(?:base|chat|(?:instruct|thinking)(?:-2507)?|2507)$")


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint, or several of one structure.

    Attributes:
        name: a published name, `Qwen/Qwen3-8B`.
        aliases: other published names with the same structure; endings such as `-Instruct` are left out.
        model_type: transformers' word for its language model, `qwen3`.
        classes: the model classes whose trees are known, the one to take by default first.
        heads: attention heads.
        kv_heads: key and value heads.
        params: how many numbers the parameters of the language model hold, a tied tensor counted once.
        tied: whether the output head and the embedding are one tensor.
        file: where its trees lie in the data.
    """

    name: str
    aliases: tuple[str, ...]
    model_type: str
    classes: tuple[str, ...]
    heads: int
    kv_heads: int
    params: int
    tied: bool
    file: str

    @property
    def family(self) -> str:
        """The family of models, `qwen3_5` for the language model `qwen3_5_text`."""
        return self.model_type.removesuffix("_text")

    @property
    def tp_sizes(self) -> tuple[int, ...]:
        """The tensor-parallel sizes above 1 that divide both kinds of heads."""
        common = gcd(self.heads, self.kv_heads)
        return tuple(size for size in range(2, common + 1) if common % size == 0)


@cache
def names() -> tuple[Entry, ...]:
    """All checkpoints, oldest family first."""
    records = json.loads((DATA / "index.json").read_text(encoding="utf-8"))["checkpoints"]
    return tuple(
        Entry(**record | {"aliases": tuple(record["aliases"]), "classes": tuple(record["classes"])})
        for record in records
    )


def find(name: str) -> Entry | None:
    """The checkpoint of a published name; see above for what is accepted."""
    return _by_stem().get(_stem(name))


def tree(name: str, cls: str | None = None) -> Tree:
    """The tree of a checkpoint, named as the caller named it.

    Args:
        name: as for `find`.
        cls: one of the classes of the entry; the first by default.

    Raises:
        LookupError: no such checkpoint, or not with this class.
    """
    entry, wanted = _entry(name, cls)
    return replace(_trees(entry.file)[wanted], name=name)


def graphs(name: str, cls: str | None = None) -> Graphs:
    """The graphs of a checkpoint.

    Args:
        name: as for `find`.
        cls: one of the classes of the entry; the first by default.

    Raises:
        LookupError: no such checkpoint, or not with this class.
    """
    entry, wanted = _entry(name, cls)
    return _graphs(graphs_file(entry.model_type), graphs_key(entry.name, wanted))


def graphs_file(model_type: str) -> str:
    """Where the graphs of a model type lie in the data."""
    return f"graphs/{model_type}.json"


def graphs_key(name: str, cls: str) -> str:
    """What the graphs of a checkpoint are called in that file."""
    return f"{name} {cls}"


@cache
def class_tree(cls: str) -> Tree | None:
    """The tree of a class, from all checkpoints that have it; `None` for a class of none of them."""
    members = [_trees(entry.file)[cls] for entry in names() if cls in entry.classes]
    return generalize(members) if members else None


@cache
def classes() -> tuple[str, ...]:
    """All classes that some checkpoint has, in alphabetical order."""
    return tuple(sorted({cls for entry in names() for cls in entry.classes}))


def close_names(name: str, count: int = 3) -> Sequence[str]:
    """Published names that look like `name`, the nearest first."""
    published = {
        known.removeprefix(OWNER).lower(): known for entry in names() for known in (entry.name, *entry.aliases)
    }
    wanted = name.lower().rpartition("/")[2]
    return [published[near] for near in get_close_matches(wanted, list(published), count)]


def _entry(name: str, cls: str | None) -> tuple[Entry, str]:
    """A checkpoint and one of its classes."""
    entry = find(name)
    if entry is None:
        raise LookupError(f"no checkpoint `{name}` in the catalog")
    wanted = cls or entry.classes[0]
    if wanted not in entry.classes:
        raise LookupError(f"`{entry.name}` is not in the catalog as `{wanted}`")
    return entry, wanted


@cache
def _by_stem() -> dict[str, Entry]:
    return {_stem(name): entry for entry in names() for name in (entry.name, *entry.aliases)}


def _stem(name: str) -> str:
    """What all accepted ways to write a name have in common."""
    return _VARIANT.sub("", name.lower().removeprefix(OWNER.lower()))


@cache
def _trees(file: str) -> dict[str, Tree]:
    return load((DATA / file).read_text(encoding="utf-8"))


@cache
def _graphs(file: str, key: str) -> Graphs:
    return unpack(_document(file), key)


@cache
def _document(file: str) -> Any:
    return json.loads((DATA / file).read_text(encoding="utf-8"))
