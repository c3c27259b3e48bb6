"""Trees of live modules and of transformers configurations.

This module and `graphs`, with what lies below them, are the only ones that import torch and transformers, and only when
one of their functions is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planlang.model.calls import fake_calls, record_calls, with_calls
from planlang.model.generalize import generalize
from planlang.model.intern import Interner, group_children
from planlang.model.pretrained import CaptureError, build, config_for, default_class, model_class, text_config
from planlang.model.tree import Child, Kind, Node, Parameter, Tree

if TYPE_CHECKING:
    from torch import nn

__all__ = ["CaptureError", "capture_config", "capture_module", "class_defaults"]

_OF_THE_WHOLE = ("model_type", "tie_word_embeddings")  # where transformers itself looks for them


def capture_module(
    model: nn.Module, name: str = "", example_inputs: Mapping[str, Any] | tuple[Any, ...] | None = None
) -> Tree:
    """The tree of a live module; shapes are global where parameters are DTensors.

    Args:
        model: any module; it is left as it is.
        name: what to call it in messages; its class where empty.
        example_inputs: inputs of one forward pass, by name or by position, which is run without gradients to see how
            modules are called. Without them nothing is run and no calls are known.

    Raises:
        CaptureError: a parameter has no shape yet (`nn.LazyLinear` before its first forward pass).
    """
    root = _Reader().read(model)
    if example_inputs is not None:
        root = with_calls(root, record_calls(model, root, example_inputs))
    return Tree(name or root.cls, root.cls, root, _settings(model), _tied(model))


def capture_config(config: Any, cls: str | None = None, name: str = "") -> Tree:
    """The tree of the model that transformers builds from a configuration, with calls where its forward pass runs.

    Args:
        config: a `transformers.PretrainedConfig`.
        cls: the model class; by default the first of `config.architectures`, then the one for causal language models.
        name: what to call it in messages; its class where empty.

    Raises:
        CaptureError: transformers has no such class, or cannot build it from the configuration.
    """
    model = build(model_class(cls) if cls else default_class(config), config)
    tree = capture_module(model, name)
    return replace(tree, root=with_calls(tree.root, fake_calls(model, tree.root)))


def class_defaults(cls: str) -> Tree:
    """The tree of a class of models, read off the model that the default configuration of the class describes.

    Raises:
        CaptureError: transformers has no such class, or cannot build it from its default configuration.
    """
    return generalize([capture_config(config_for(cls, {}), cls)])


class _Reader:
    """Turns modules into nodes; one for each capture, so that every class is looked at once."""

    def __init__(self) -> None:
        from torch import nn

        self._nn = nn
        self._interner = Interner()
        self._classes: dict[type, tuple[str, tuple[str, ...], Kind]] = {}

    def read(self, module: nn.Module) -> Node:
        """The node of a module and of all below it."""
        if type(module) not in self._classes:
            self._classes[type(module)] = (*self._names(type(module)), self._kind(type(module)))
        cls, bases, kind = self._classes[type(module)]
        parameters = tuple(
            Parameter(name, _shape(name, parameter))
            for name, parameter in module._parameters.items()
            if parameter is not None
        )
        if kind is Kind.OTHER and parameters and cls.endswith("Norm"):
            kind = Kind.NORM
        pairs = [(name, self.read(child)) for name, child in module._modules.items() if child is not None]
        is_list = isinstance(module, self._nn.ModuleList | self._nn.Sequential)
        children = group_children(pairs) if is_list else tuple(Child(name, node) for name, node in pairs)
        length = len(pairs) if is_list else None
        return self._interner.intern(Node(cls, kind, bases, parameters, children, length=length))

    def _names(self, cls: type) -> tuple[str, tuple[str, ...]]:
        """The names of a module's class and of its bases, without the class that `fully_shard` puts before them."""
        line = [base for base in cls.__mro__ if issubclass(base, self._nn.Module) and base is not self._nn.Module]
        plain = [base for base in line if all(above.__name__ != "FSDPModule" for above in base.__mro__)]
        first, *rest = (base.__name__ for base in plain or (cls,))
        return first, tuple(rest)

    def _kind(self, cls: type) -> Kind:
        nn = self._nn
        kinds: dict[Kind, tuple[type, ...]] = {
            Kind.LINEAR: (nn.Linear,),
            Kind.EMBEDDING: (nn.Embedding,),
            Kind.NORM: (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm),
            Kind.CONTAINER: (nn.ModuleList, nn.ModuleDict, nn.Sequential),
        }
        return next((kind for kind, classes in kinds.items() if issubclass(cls, classes)), Kind.OTHER)


def _shape(name: str, parameter: nn.Parameter) -> tuple[int, ...]:
    try:
        return tuple(parameter.shape)
    except RuntimeError as error:  # how torch's lazy parameters answer
        raise CaptureError(f"parameter `{name}` has no shape before the first forward pass") from error


def _settings(model: nn.Module) -> dict[str, bool | int | float | str | None]:
    """The scalar settings of a transformers model, those of its language model first.

    Any other module has no model type, which is a setting too: its tree is that of a model, not of a class.
    """
    config: Any = getattr(model, "config", None)
    if not (hasattr(config, "attribute_map") and hasattr(config, "get_text_config")):  # no `PretrainedConfig`
        return {"model_type": None}
    whole, text = config.to_dict(), text_config(config)
    settings = {
        key: value
        for key, value in (whole | text.to_dict()).items()
        if isinstance(value, bool | int | float | str | None)
        and not key.startswith("_")
        and key != "transformers_version"
    }
    # Other names of settings, which the configuration answers to as well: `num_experts` for `num_local_experts`.
    settings |= {other: settings[key] for other, key in text.attribute_map.items() if key in settings}
    settings |= {key: whole[key] for key in _OF_THE_WHOLE if key in whole}
    hidden, heads = settings.get("hidden_size"), settings.get("num_attention_heads")
    if settings.get("head_dim") is None and isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        settings["head_dim"] = hidden // heads
    return settings or {"model_type": None}


def _tied(model: nn.Module) -> tuple[tuple[str, ...], ...]:
    """Names of parameters that are one object, in the order of the model."""
    groups: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), []).append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)
