"""What the unsharded model computes, and how far something is from it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

SEED = 99
FLOOR = 1e-4  # of the model's largest gradient: rounding in what a gradient is the sum of is no smaller
Inputs = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One forward and backward pass of the unsharded model.

    Attributes:
        inputs: the tensors that the model was called with.
        model: the model, with its gradients.
        logits: what came out.
        weights: of the logits' shape; the loss is the sum of their product.
        gradients: of every parameter by the first of its names; `None` where the loss does not depend on it.
        scale: the largest element of all gradients.
    """

    inputs: Inputs
    model: nn.Module
    logits: Tensor
    weights: Tensor
    gradients: Mapping[str, Tensor | None]
    scale: float


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returns: itself, the attribute or the item of that name, or the first of several.

    Raises:
        TypeError: there is no tensor of numbers with a point there.
    """
    found = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", output)
    if isinstance(found, list | tuple):
        found = found[0] if found else None
    if not isinstance(found, Tensor) or not found.is_floating_point():
        kind = found.dtype if isinstance(found, Tensor) else type(output).__name__
        raise TypeError(f"the model returns no logits, but `{kind}`")
    return found


def split(inputs: Inputs, parts: int) -> list[Inputs]:
    """Inputs in equal parts along the batch."""
    if parts == 1:
        return [inputs]
    cut = {key: each.chunk(parts) if isinstance(each, Tensor) else (each,) * parts for key, each in inputs.items()}
    return [{key: each[number] for key, each in cut.items()} for number in range(parts)]


def truth(make_model: Callable[[], nn.Module], inputs: Inputs, micro_batches: int = 1) -> Truth:
    """Runs the unsharded model.

    The loss is a random projection of the logits: it gives every logit a gradient of its own, so no error cancels, and
    it is linear, so gradients are as exact as the model's own arithmetic.

    Args:
        make_model: makes the model, in float64, the same at every call.
        inputs: keyword arguments of its forward.
        micro_batches: in how many parts, one after the other, the batch is run; gradients add up. Models that sum a
            gradient in float32 round each part, so who adds parts up is held against parts.
    """
    model = make_model()
    source = torch.Generator().manual_seed(SEED)
    found: list[tuple[Tensor, Tensor]] = []
    for part in split(inputs, micro_batches):
        logits = logits_of(model(**part))
        own = torch.randn(logits.shape, generator=source, dtype=torch.float64).to(logits.dtype)
        (logits * own).sum().backward()  # type: ignore[no-untyped-call]
        found.append((logits.detach(), own))
    logits, weights = (torch.cat(each) if micro_batches > 1 else each[0] for each in zip(*found, strict=True))
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    scale = max((float(g.abs().max()) for g in gradients.values() if g is not None), default=0.0)
    return Truth(inputs=inputs, model=model, logits=logits, weights=weights, gradients=gradients, scale=scale)


def error(got: Tensor, right: Tensor, floor: float = 0.0) -> float:
    """The largest difference, relative to the largest element of `right` or to `floor` if that is larger.

    Infinite where the shapes differ or a number is nan or inf, also where it is so on both sides: `flaw` has the words.
    """
    if got.shape != right.shape:
        return float("inf")
    got = got.to(right.device)
    found = float((got - right).abs().max()) / max(float(right.abs().max()), floor, 1e-300)
    return found if found == found else float("inf")


def flaw(copies: Sequence[Tensor | None], right: Tensor) -> str:
    """What the ranks' copies have that keeps them from being compared, in words; empty where there is nothing."""
    for rank, copy_ in enumerate(copies):
        if copy_ is None:
            return f"no value on rank {rank}"
        if copy_.shape != right.shape:
            return f"shape {list(copy_.shape)} on rank {rank}, not {list(right.shape)}"
        for name, found in (("nan", copy_.isnan()), ("inf", copy_.isinf())):
            if bool(found.any()):
                return f"{name} on rank {rank}, in {int(found.sum())} of {copy_.numel()} numbers"
    return ""


def factor(got: Tensor, right: Tensor) -> float:
    """The number that `right` must be multiplied by to come closest to `got`; 0 where the shapes differ."""
    if got.shape != right.shape:
        return 0.0
    got = got.to(right.device)
    return float((got * right).sum() / torch.clamp((right * right).sum(), min=1e-300))


def optimizer(model: nn.Module, scale: float) -> torch.optim.Optimizer:
    """AdamW for a model whose largest gradient element is `scale`.

    It divides each element by its own size, so what is smaller than rounding is held down by `eps`.
    """
    return torch.optim.AdamW(model.parameters(), lr=1e-2, eps=FLOOR * scale, foreach=False)


def stepped(right: Truth) -> dict[str, Tensor]:
    """The weights of the unsharded model after one step of the optimizer."""
    model = copy.deepcopy(right.model)
    for name, parameter in model.named_parameters():
        parameter.grad = right.gradients[name]
    optimizer(model, right.scale).step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}
