"""Where gradients part, walking back from the loss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from planlang.plan.styles import Style
from planlang.runtime.simulate import simulate
from planlang.runtime.simulate.judge import same
from planlang.runtime.simulate.local import of_each_rank
from planlang.runtime.simulate.run import whole
from planlang.runtime.simulate.truth import FLOOR, Inputs, Truth, error, factor, logits_of
from planlang.runtime.verify.diverge import joined


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientParting:
    """The first wrong gradient in the order of the backward pass.

    Attributes:
        module: the module, by its name in the twin, whose output or parameter has it.
        parameter: the parameter, by its full name; empty where the gradient of the output is wrong already.
        consumers: the modules that the output enters, where it is the output.
        error: the largest difference, relative to the largest element.
        factor: what the right gradient must be multiplied by to come closest to rank 0's.
    """

    module: str
    parameter: str = ""
    consumers: tuple[str, ...] = ()
    error: float = 0.0
    factor: float = 0.0


@dataclass(slots=True)
class _Gradients:
    """The gradient of the first tensor that each module returned, on each rank; modules in the order they ended."""

    ranks: int = 1
    found: dict[str, list[Tensor]] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    entered: dict[str, Tensor] = field(default_factory=dict)

    def hang(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            module.register_forward_pre_hook(self._enter(name), with_kwargs=True)
            module.register_forward_hook(self._end(name))

    def _enter(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: object, kwargs: object) -> None:
            if (tensor := _first((args, kwargs))) is not None:
                self.entered.setdefault(name, tensor)

        return hook

    def _end(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: object, output: Any) -> None:
            tensor = _first(output)
            if tensor is None or not tensor.requires_grad or name in self.outputs:
                return
            self.outputs[name] = tensor
            self.ended.append(name)
            tensor.register_hook(keep)  # type: ignore[no-untyped-call]

        def keep(gradient: Tensor) -> None:
            self.found.setdefault(name, of_each_rank(whole(gradient.detach()), self.ranks))

        return hook

    def consumers(self, name: str) -> tuple[str, ...]:
        """The modules that are given what a module returned, without those around others of them."""
        given = [other for other, tensor in self.entered.items() if tensor is self.outputs[name]]
        return tuple(each for each in given if not any(other.startswith(f"{each}.") for other in given))


def _first(values: object) -> Tensor | None:
    return next((each for each in tree_leaves(values) if isinstance(each, Tensor) and each.is_floating_point()), None)


def first_wrong_gradient(
    make_model: Callable[[], nn.Module],
    styles: Mapping[str, Style],
    ranks: int,
    inputs: Inputs,
    right: Truth,
    tolerance: float,
    wrong: Collection[str],
) -> GradientParting | None:
    """The first gradient that is off by more than rounding, from the module that ended last to the first.

    Ranks that each have a part of a gradient of an activation are right as long as the parts make up the whole: side by
    side, or in sum, since what runs before may still add them up. A parameter's gradient is never added up any more.

    Args:
        make_model: makes the model, the same at every call.
        styles: as for `simulate`.
        ranks: their number.
        inputs: what the model is called with.
        right: what `truth` found.
        tolerance: what is rounding.
        wrong: the parameters whose gradients are known to be wrong.
    """
    single, split = _Gradients(), _Gradients(ranks)
    model = make_model()
    single.hang(model)
    (logits_of(model(**inputs)) * right.weights).sum().backward()  # type: ignore[no-untyped-call]
    simulate(make_model, styles, ranks, inputs, right=right, watch=split.hang)
    floor = FLOOR * max((float(each.abs().max()) for (each,) in single.found.values()), default=0.0)
    names = list(reversed(single.ended))
    for place, name in enumerate(names):
        apart = _apart(single, split, name, floor)
        if apart is not None and apart.error > tolerance:
            inner = name
            for other in names[place + 1 :]:  # a module around another one returns what that one returns
                if not other.startswith(f"{inner}." if inner else "") or not _same(single, inner, other):
                    break
                inner = other
            return GradientParting(
                module=inner, consumers=single.consumers(inner), error=apart.error, factor=apart.factor
            )
        for key, _ in model.get_submodule(name).named_parameters(recurse=False):
            if (parameter := f"{name}.{key}" if name else key) in wrong:
                return GradientParting(module=name, parameter=parameter)
    return None


def _same(single: _Gradients, name: str, other: str) -> bool:
    return torch.equal(single.found[name][0], single.found[other][0])


def _apart(single: _Gradients, split: _Gradients, name: str, floor: float) -> GradientParting | None:
    """How far the gradient of a module's output is off; `None` where it did not come to one on both sides."""
    if name not in single.found or name not in split.found:
        return None
    (expected,) = single.found[name]
    parts = split.found[name]
    got = joined(parts, expected)
    apart = max(error(each, expected, floor) for each in got)
    if same(parts):
        apart = min(apart, error(torch.stack(parts).sum(0), expected, floor))
    return GradientParting(module=name, error=apart, factor=factor(got[0], expected))
