"""One sum for the gradient of an input that several linear layers share.

The gradient of an input is a sum over layers, blocks and ranks. Layer by layer, each would cost a sum across ranks of
its own; so each layer only leaves behind what its term is made of, and when all have, block by block the layers' terms
are added, then the blocks in their tree, then the ranks.

Who shares is found out by looking: a layer leaves a mark on the tensor that it was given, and the next layer that is
given the same tensor finds it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard

from planlang.runtime.invariant.joining import operands
from planlang.runtime.invariant.settings import REPLICATE, Settings, arrived
from planlang.runtime.invariant.sums import all_gather, tree_all_reduce, tree_reduce_scatter, tree_sum

_MARK = "_invariant_shared"
_GIVEN: ContextVar[Any] = ContextVar("given", default=None)


@dataclass(slots=True)
class Terms:
    """What the layers that were given an input leave behind for its gradient.

    Attributes:
        settings: those of the first layer.
        shape: the whole input's, on one rank.
        dim: along which the input came in parts; else `None`.
        layers: how many have been given the input.
        left: what each layer's backward left behind, by the backward pass that it was part of.
    """

    settings: Settings
    shape: torch.Size
    dim: int | None
    layers: int = 0
    left: dict[int, list[tuple[int, Tensor, Tensor]]] = field(default_factory=dict)

    def join(self) -> int:
        """The number of one more layer that is given the input."""
        self.layers += 1
        return self.layers - 1

    def leave(self, number: int, gradient: Tensor, weight: Tensor) -> None:
        """Leaves behind what a layer's term of the input's gradient is made of.

        Args:
            number: the layer's.
            gradient: of its output, [tokens, a rank's columns].
            weight: its own, [a rank's columns, width of the input].
        """
        task = _pass()
        for other in [each for each in self.left if each != task]:  # left by a pass that did not come to the input
            del self.left[other]
        self.left.setdefault(task, []).append((number, gradient, weight))

    def gradient(self) -> Tensor:
        """The input's gradient: whole, or a rank's part where the input came in parts."""
        found = sorted(self.left.pop(_pass()), key=lambda each: each[0])
        mesh, dtype = self.settings.mesh, found[0][1].dtype
        total = tree_sum(self._blocks(found), self.settings.dtype).view(self.shape)
        found.clear()  # the layers' gradients are not needed while the sum crosses ranks
        whole = tree_all_reduce(total, mesh) if self.dim is None else tree_reduce_scatter(total, self.dim, mesh)
        return whole.to(dtype)

    def _blocks(self, found: list[tuple[int, Tensor, Tensor]]) -> Iterator[Tensor]:
        """For each of a rank's blocks the sum of all layers' terms, in the layers' order: [tokens, width]."""
        own = self.settings.own
        layers = [
            zip(operands(gradient, own, 1), operands(weight, own, 0), strict=True) for _, gradient, weight in found
        ]
        return map(self._block, zip(*layers, strict=True))

    def _block(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        total = torch.mm(*pairs[0])
        if self.settings.dtype is not None:
            total = total.to(self.settings.dtype)
        for gradient, weight in pairs[1:]:
            total.add_(torch.mm(gradient, weight))
        return total


@dataclass(frozen=True, slots=True)
class Shared:
    """An input, as the next layer that is given it finds it.

    Attributes:
        terms: what the layers leave behind for its gradient.
        version: how often the input had been written to.
        whole: the input, gathered or as a plain tensor; `None` where it is that itself.
        token: a number that gradients flow through; `None` where the input needs none. The layers' graphs keep it, not
            the input: its own graph may end in the input, which would then never be freed.
    """

    terms: Terms
    version: int
    whole: Tensor | None
    token: ReferenceType[Tensor] | None


class _Split(torch.autograd.Function):
    """From an input to its token, and back from the token to the input's gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, terms: Terms) -> Tensor:
        ctx.terms = terms
        return x.new_zeros(())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        terms: Terms = ctx.terms
        return terms.gradient(), None


def share(x: Tensor, settings: Settings) -> tuple[Tensor, Terms, Tensor | None]:
    """A rank's whole input for its columns, what the layers that are given it have in common, and its token.

    Args:
        x: plain and laid as the style says, or a DTensor.
        settings: those of the layer that is given it.
    """
    x = _original(x)
    found = getattr(x, _MARK, None)
    if isinstance(found, Shared) and _same(found, x, settings):
        token = None if found.token is None else found.token()
        if (token is None) == (found.token is None):
            return (x if found.whole is None else found.whole), found.terms, token
    made, token = _made(x, settings)
    setattr(x, _MARK, made)
    return (x if made.whole is None else made.whole), made.terms, token


def _made(x: Tensor, settings: Settings) -> tuple[Shared, Tensor | None]:
    needed = x.requires_grad and torch.is_grad_enabled()
    part, dim = x, None
    lies = x.placements[0] if isinstance(x, DTensor) else settings.arrives
    if isinstance(lies, Shard):
        dim = lies.dim % x.ndim
        part = x.to_local() if isinstance(x, DTensor) else x
        whole = all_gather(part.detach(), dim, settings.mesh)
    else:
        part = arrived(x, settings, REPLICATE)
        whole = part.detach()
    terms = Terms(settings, whole.shape, dim)
    token = _Split.apply(part, terms) if needed else None  # type: ignore[no-untyped-call]
    held = None if part is x and dim is None else whole
    return Shared(terms, _version(x), held, None if token is None else ref(token)), token


def _same(found: Shared, x: Tensor, settings: Settings) -> bool:
    """Whether what was left on a tensor still holds, and is of another layer with the same blocks."""
    ours, theirs = settings, found.terms.settings
    return (
        found.version == _version(x)
        and (found.token is not None) == (x.requires_grad and torch.is_grad_enabled())
        and (ours.mesh, ours.blocks, ours.dtype) == (theirs.mesh, theirs.blocks, theirs.dtype)
        and (isinstance(x, DTensor) or ours.arrives == theirs.arrives)
    )


@contextmanager
def given(x: Any) -> Iterator[None]:
    """While a layer is called: what its caller gave it, in case that hooks give it a tensor of their own."""
    before = _GIVEN.get()
    _GIVEN.set(x)
    try:
        yield
    finally:
        _GIVEN.set(before)


def _original(x: Tensor) -> Tensor:
    """The tensor that a layer was given, if `x` is what torch's backward hooks made of it and nothing else."""
    first = _GIVEN.get()
    if not isinstance(first, Tensor) or x is first or x.grad_fn is None or not first.requires_grad:
        return x
    edges = x.grad_fn.next_functions
    if x.grad_fn.name() != "BackwardHookFunctionBackward" or not edges or edges[0] != _edge(first):
        return x
    return first


def _edge(x: Tensor) -> tuple[Any, int]:
    """Where a tensor's gradient goes."""
    edge = torch.autograd.graph.get_gradient_edge(x)
    return edge.node, edge.output_nr


def _version(x: Tensor) -> int:
    return -1 if x.is_inference() else x._version


def _pass() -> int:
    """The number of the backward pass that is running."""
    number: int = torch._C._current_graph_task_id()
    return number
