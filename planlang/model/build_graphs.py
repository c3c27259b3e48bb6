"""Makes the graphs of the catalog; `planlang.model.build_catalog` calls it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from planlang.model import catalog
from planlang.model.graphs import capture_records
from planlang.model.packing import dump, pack
from planlang.model.template import unpack

# Sizes at which graphs that are made anew are compared with those of the catalog: a batch, a sequence, a token.
_COMPARED = ((2, 16), (1, 7), (3, 1), (1, 1))


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint of the catalog as one of its classes.

    Attributes:
        kind: its model type.
        name: its published name.
        cls: the class.
        config: its configuration.
    """

    kind: str
    name: str
    cls: str
    config: Any


def make_graph_files(models: Iterable[Model]) -> dict[str, str]:
    """File names and texts, one file for each model type."""
    records: dict[str, dict[str, Any]] = {}
    failures: dict[str, dict[str, dict[str, str]]] = {}
    for model in models:
        key = catalog.graphs_key(model.name, model.cls)
        made, failed = capture_records(model.config, model.cls)
        records.setdefault(model.kind, {})[key] = made
        failures.setdefault(model.kind, {})[key] = failed
    return {catalog.graphs_file(kind): dump(pack(made, failures[kind])) for kind, made in records.items()}


def differing_graphs(models: Iterable[Model]) -> list[str]:
    """What differs between the graphs of the catalog and those that are made anew, one sentence each."""
    found = []
    for model in models:
        records, failures = capture_records(model.config, model.cls)
        made, known = unpack(pack({"": records}, {"": failures}), ""), catalog.graphs(model.name, model.cls)
        if made.failures != known.failures or list(made.passes) != list(known.passes):
            found.append(f"the passes of {model.name} as {model.cls} differ from what transformers does")
        for kind, template in made.passes.items():
            other = known.passes.get(kind)
            if other is not None and any(template.find(*sizes) != other.find(*sizes) for sizes in _COMPARED):
                found.append(f"the pass {kind} of {model.name} as {model.cls} differs from what transformers does")
    return found
