"""How messages name the model that a plan is compiled for."""

from __future__ import annotations

from planlang.model.tree import Tree


def is_nameless(tree: Tree) -> bool:
    """Whether it is a model or a configuration that the caller holds, known by its class alone."""
    return not tree.is_class and tree.name == tree.cls


def model_text(tree: Tree) -> str:
    """A model as messages name it."""
    return "this model" if is_nameless(tree) else f"`{tree.name}`"
