"""The module tree of a model, as data: what a plan is matched and checked against.

Equal subtrees are one object, and the children of a `ModuleList` that are equal stand once with the set of their
indices, so a 94-layer model is as small as a 2-layer one. A tree of a *class* rather than of a model has open index
sets ("any number of layers") and shapes only where every known model of the class agrees on the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from planlang.indices import IndexSet


class Kind(StrEnum):
    """What torch's styles can do with a module, by `isinstance`."""

    LINEAR = "linear"
    EMBEDDING = "embedding"
    NORM = "norm"
    CONTAINER = "container"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of one module: its name in that module and its global shape; a dim of -1 is not known."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many numbers it holds; 0 where a dim is unknown."""
        count = 1
        for dim in self.shape:
            count *= dim
        return max(count, 0)


@dataclass(frozen=True, slots=True)
class Call:
    """How a module was called in one forward pass: how many dims each tensor has, `None` for what is no tensor.

    Attributes:
        inputs: one entry for each positional input.
        keywords: the inputs passed by name.
        outputs: one entry for each output; a lone tensor is one output.
    """

    inputs: tuple[int | None, ...] = ()
    keywords: tuple[tuple[str, int | None], ...] = ()
    outputs: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """Children of one module that share a node: one name, or the indices of a `ModuleList` or `Sequential`."""

    name: str | IndexSet
    node: Node


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A module: its class, what it is to torch, its own parameters, its children.

    Attributes:
        cls: the class name, `Qwen3Attention`.
        bases: the class names of its other ancestors below `nn.Module`, nearest first: `is` matches these too.
        call: how the model calls it; `None` where no forward pass was seen.
        length: for a list of modules, how many it holds; `None` for what is no list or has no known length.
    """

    cls: str
    kind: Kind
    bases: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    children: tuple[Child, ...] = ()
    call: Call | None = None
    length: int | None = None

    def own_size(self) -> int:
        """How many numbers the parameters of this module itself hold."""
        return sum(parameter.size for parameter in self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A model, or a class of models.

    Attributes:
        name: how the user named it: `Qwen/Qwen3-8B`, a path, a class.
        cls: the class of the whole: `Qwen3ForCausalLM`.
        root: the whole module.
        config: the model's scalar settings, for `config.NAME`; empty for a class.
        tied: groups of parameter names (`lm_head.weight`) that are one tensor.
        may_tie: the same for a class: groups that some of its models tie.
        omitted: subtrees that the real model has and this tree does not (`model.visual`).
    """

    name: str
    cls: str
    root: Node
    config: Mapping[str, bool | int | float | str | None] = field(default_factory=dict)
    tied: tuple[tuple[str, ...], ...] = ()
    may_tie: tuple[tuple[str, ...], ...] = ()
    omitted: tuple[str, ...] = ()

    @property
    def is_class(self) -> bool:
        """Whether this is a class of models: layers are not counted and sizes not known."""
        return not self.config

    def walk(self) -> Iterator[tuple[tuple[str | IndexSet, ...], Node]]:
        """Every module, parents first, with its path: a name or an index set for each segment."""
        stack: list[tuple[tuple[str | IndexSet, ...], Node]] = [((), self.root)]
        while stack:
            path, node = stack.pop()
            yield path, node
            stack.extend(((*path, child.name), child.node) for child in reversed(node.children))

    def size(self) -> int:
        """How many numbers all parameters hold, a tied tensor counted once."""
        extra = 0
        for group in self.tied:
            for name in group[1:]:
                module, _, parameter = name.rpartition(".")
                node = self.find(module)
                extra += next((p.size for p in node.parameters if p.name == parameter), 0) if node else 0
        return sum(node.own_size() * count(path) for path, node in self.walk()) - extra

    def find(self, path: str) -> Node | None:
        """The module of a dotted name, `model.layers.3.mlp`; `""` is the root."""
        node = self.root
        for segment in path.split(".") if path else ():
            for child in node.children:
                if child.name == segment or (
                    isinstance(child.name, IndexSet) and segment.isdecimal() and int(segment) in child.name
                ):
                    node = child.node
                    break
            else:
                return None
        return node


def count(path: tuple[str | IndexSet, ...]) -> int:
    """How many modules a path stands for."""
    total = 1
    for segment in path:
        if isinstance(segment, IndexSet):
            total *= len(segment) if segment.finite else 1
    return total
