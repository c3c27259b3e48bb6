"""Which modules of a model are layers, and which layers run the same code on equal shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

# Attributes that tell layers apart without changing what they do.
_LAYER_INDEX = {"layer_idx", "layer_id", "layer_number", "idx", "index"}
# Attributes that every module has; those that matter are looked at by themselves.
_OF_MODULES = set(vars(nn.Module())) - {"training"}

Names = Callable[[torch.Tensor], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Body:
    """What the first layer of a kind took and gave.

    Attributes:
        number: its body.
        inputs: the values that it was called with; others that it reads from outside are the same for every layer.
        outs: what it returned: numbers of values under `made` or among `inputs`, and anything else as it is.
        made: the tensors that it made and returned.
        structure: how `outs` are put together.
    """

    number: int
    inputs: tuple[int, ...]
    outs: list[Any]
    made: dict[int, torch.Tensor]
    structure: Any


def layers(model: nn.Module) -> Iterator[nn.Module]:
    """The members of the outermost lists of modules."""
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        else:
            yield from layers(child)


def signature(module: nn.Module, names: Names, name: str) -> Hashable:
    """What two layers have in common that run the same code on equal shapes.

    Args:
        module: the layer or a module in it.
        names: every name of a parameter or buffer in the whole model.
        name: the name of the layer; parameters that also have names outside it make it one of a kind.
    """
    own = tuple(
        (key, _comparable(value))
        for key, value in sorted(vars(module).items())
        if key not in _LAYER_INDEX and key not in _OF_MODULES and key != "forward"
    )
    tensors = tuple(
        (key, None if tensor is None else _tensor(tensor, names, name))
        for held in (module._parameters, module._buffers)
        for key, tensor in held.items()
    )
    children = tuple((key, signature(child, names, name)) for key, child in module.named_children())
    return (_name(type(module)), own, tensors, children)


def _tensor(tensor: torch.Tensor, names: Names, name: str) -> Hashable:
    shared = not all(each.startswith(name + ".") for each in names(tensor))
    return (tuple(tensor.shape), tensor.dtype, tensor.requires_grad, id(tensor) if shared else 0)


def _comparable(value: Any) -> Hashable:
    """An attribute as something that is equal exactly where two layers hold the same."""
    match value:
        case bool() | int() | float() | str() | None:
            return (type(value).__name__, value)
        case tuple() | list():
            return tuple(map(_comparable, value))
        case Mapping():
            return tuple((str(key), _comparable(each)) for key, each in value.items())
        case torch.Tensor() | nn.Module():
            return _name(type(value))
        case partial():
            return (id(value.func), _comparable(value.args), _comparable(value.keywords))
        case FunctionType():  # one that was made for each layer does the same with the same code and surroundings
            surroundings = [cell.cell_contents for cell in value.__closure__ or ()]
            return (value.__code__, _comparable(value.__defaults__), _comparable(surroundings))
        case MethodType():
            return (id(value.__func__), _comparable(value.__self__))
        case _:
            return id(value)  # configurations and the like, which layers share


def described(leaf: Any) -> Hashable:
    """What must agree between the inputs of two layers that share a body."""
    if isinstance(leaf, torch.Tensor):
        return (tuple(map(int, leaf.shape)), leaf.dtype, leaf.requires_grad)
    return (type(leaf).__name__, leaf) if isinstance(leaf, bool | int | float | str | None) else _name(type(leaf))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
