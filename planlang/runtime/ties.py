"""Parameters that are one object under several names, before and after styles are applied.

Torch's styles replace a module's parameters one module at a time, so a weight that two modules share becomes two
parameters, each with a part of the gradient. Here the sharing is written down before and brought back after. Identity
alone decides, so it works for any model, whatever its configuration says about ties.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True)
class Held:
    """One parameter as it was.

    Attributes:
        sites: the modules that hold it, in the model's order, and its name in each.
        trainable: its `requires_grad`.
        before: the parameter itself if it is tied. Others are not kept: a whole model would stay in memory until the
            last module is sharded.
    """

    sites: tuple[tuple[nn.Module, str], ...]
    trainable: bool
    before: nn.Parameter | None


def record(model: nn.Module) -> tuple[Held, ...]:
    """Who holds each parameter of the model, and which are frozen."""
    sites: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                sites.setdefault(parameter, []).append((module, name))
    return tuple(
        Held(tuple(where), parameter.requires_grad, parameter if len(where) > 1 else None)
        for parameter, where in sites.items()
    )


def restore(records: tuple[Held, ...]) -> None:
    """Ties again what was tied, and sets `requires_grad` to what it was.

    Of several new parameters for one old one, the first in the model's order is kept: at every site, also those whose
    module has no style.
    """
    for held in records:
        now = [module._parameters[name] for module, name in held.sites]
        kept = now[0]
        if held.before is not None:
            kept = next((parameter for parameter in now if parameter is not held.before), held.before)
            for (module, name), parameter in zip(held.sites, now, strict=True):
                if parameter is not kept:
                    module.register_parameter(name, kept)
        if kept is not None and kept.requires_grad != held.trainable:
            kept.requires_grad_(held.trainable)
