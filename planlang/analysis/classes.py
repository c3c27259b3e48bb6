"""The classes that a plan names, and what a person meant who names a family of models."""

from __future__ import annotations

from dataclasses import replace

from planlang.diagnostics.finding import Finding
from planlang.model import catalog
from planlang.model.tree import Tree
from planlang.model.trees import class_tree
from planlang.source import Place


def known_class(name: str, place: Place | None) -> Tree | Finding:
    """The tree of a class; where there is none, a finding that knows that `Qwen3` is short for `Qwen3ForCausalLM`."""
    found = class_tree(name, place)
    whole = f"{name.removesuffix('Model').lower()}forcausallm"
    meant = next((known for known in catalog.classes() if known.lower() == whole), None)
    if isinstance(found, Finding) and meant:
        return replace(found, help=f"did you mean `{meant}`?")
    return found
