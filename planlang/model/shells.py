"""Stand-ins for live models: the same modules with parameters that nobody misses, for a pass on fake tensors."""

from __future__ import annotations

import copy
from collections import OrderedDict
from types import MethodType
from typing import Any

from torch import nn
from transformers import PreTrainedConfig

# What parallel and offloading libraries hang onto modules; none of it belongs to the model.
_HOOKS = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks") or "_hooks_" in name)
_KNOWN = ("torch.", "transformers.")


def shell(model: nn.Module) -> nn.Module:
    """A copy of a model that shares its tensors, but no module, no hook and no configuration with it."""
    made: dict[nn.Module, nn.Module] = {}
    configs: dict[int, Any] = {}

    def visit(module: nn.Module) -> nn.Module:
        if module in made:
            return made[module]
        twin = made[module] = copy.copy(module)
        own = twin.__dict__
        own.update({name: OrderedDict() for name in _HOOKS})
        own.update({name: dict(own[name]) for name in ("_parameters", "_buffers")})
        own["_modules"] = {name: child and visit(child) for name, child in module._modules.items()}
        for name, value in own.items():
            if isinstance(value, PreTrainedConfig):
                own[name] = copy.deepcopy(value, configs)
        if isinstance(forward := own.pop("forward", None), MethodType):  # kernels that were put in place of torch's
            own["forward"] = MethodType(forward.__func__, twin)
        return twin

    return visit(model)


def description(model: nn.Module) -> list[Any] | None:
    """What decides the passes of a model beside its configuration; `None` where its code may be the user's own."""
    for module in model.modules():
        if not type(module).__module__.startswith(_KNOWN) or "forward" in vars(module):
            return None
    names = [(name, f"{type(module).__module__}.{type(module).__qualname__}") for name, module in model.named_modules()]
    shapes = [(name, list(each.shape), id(each)) for name, each in model.named_parameters(remove_duplicate=False)]
    first: dict[int, str] = {}
    return [*names, *((name, shape, first.setdefault(key, name)) for name, shape, key in shapes)]
