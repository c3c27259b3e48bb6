"""The trees and graphs of models and classes by name, or a finding that says why there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, nearest, or_list
from planlang.model import catalog
from planlang.model.resolve import ModelError, model_graphs, model_tree
from planlang.model.template import Graphs
from planlang.model.tree import Tree
from planlang.source import Place, printable

T = TypeVar("T")

_CODES = {
    "unknown-model": codes.UNKNOWN_MODEL,
    "bad-config": codes.BAD_MODEL_CONFIG,
    "unknown-architecture": codes.UNKNOWN_ARCHITECTURE,
    "unknown-class": codes.UNKNOWN_ARCHITECTURE,
}


def named_model(spec: str, cls: str | None = None) -> Tree | Finding:
    """The tree of what `--model` (and `--as`) name."""
    return _named(model_tree, spec, cls)


def named_graphs(spec: str | os.PathLike[str] | Any, cls: str | None = None) -> Graphs | Finding:
    """The graphs of what `--model` (and `--as`) name, or of a configuration or a live model of transformers.

    Where the model's own code cannot be run without data, there is no finding: `Graphs.failures` tells.
    """
    if isinstance(spec, str | os.PathLike):
        return _named(model_graphs, os.fspath(spec), cls)
    from planlang.model.graphs import graphs_of
    from planlang.model.pretrained import CaptureError

    try:
        return graphs_of(spec, cls)
    except CaptureError as error:
        return Finding(code=codes.UNKNOWN_ARCHITECTURE, message=str(error))


def _named(make: Callable[[str, str | None], T], spec: str, cls: str | None) -> T | Finding:
    try:
        return make(spec, cls)
    except ModelError as error:
        return Finding(code=_CODES[error.code_hint], message=_safe(error.message), help=_safe(error.help))
    except ImportError as error:
        message = f"`{_safe(spec)}` is not in the catalog, and building it needs torch and transformers: {error}"
        return Finding(code=codes.UNKNOWN_ARCHITECTURE, message=message, help="install both, or name a catalog model")


def _safe(text: str) -> str:
    return " ".join(printable(text).split())


def class_tree(cls: str, place: Place | None) -> Tree | Finding:
    """The tree of a class that a plan names at `place`: from the catalog, or transformers' defaults for the class."""
    known = catalog.class_tree(cls)
    if known:
        return known
    from planlang.model.capture import CaptureError, class_defaults

    try:
        return class_defaults(cls)
    except (CaptureError, ImportError) as error:
        near = nearest(cls, catalog.classes())
        help_ = f"did you mean {or_list(near)}?" if near else "give `--model …`, a configuration or a catalog name"
        message = f"the class `{cls}` is not known here: {error}"
        return Finding(code=codes.UNKNOWN_CLASS, message=message, place=place, help=help_)
