"""Modules under a style: their class is a subclass of their own whose forward runs in blocks, as FSDP2 does it.

A forward that is bound to a module and kept on it would be a reference cycle, which keeps the module's memory until the
garbage collector comes, and a copy of the module would run on the parameters of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from planlang.runtime.invariant import attention, embedding, linear, repeated
from planlang.runtime.invariant.shared import given

_F = TypeVar("_F", bound=Callable[..., Any])
_OWN = "_invariant_own_forward"
_REASON = "planlang: the blocks of an invariant style are not compiled, to keep their bits"


def _eager(forward: _F) -> _F:
    """Keeps a forward out of `torch.compile`, which compiles what lies between; with `fullgraph=True` it raises.

    A compiler fuses and tiles by the widths that a rank has, which is what blocks are there to hide.
    """
    kept: _F = torch.compiler.disable(forward, reason=_REASON)  # type: ignore[no-untyped-call]
    return kept


class Styled:
    """What is common to all modules under a style."""


class Columns(Styled):
    """A linear layer whose output features are split."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Tells the forward which tensor the caller gave, where torch puts one of its own in its place.

        Torch does so under full backward hooks. Where nobody asks for the gradient of the layer's own input, as under
        hooks that run before the layer's backward, the layer can share its input all the same. A hook on that gradient
        is to see the layer's own term, so there it does not share.
        """
        assert isinstance(self, nn.Module)
        watched = self._backward_pre_hooks or hooks._global_backward_pre_hooks
        if not watched or self._backward_hooks or hooks._global_backward_hooks or not args:
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        with given(args[0]):
            return super().__call__(*args, **kwargs)  # type: ignore[misc]

    @_eager
    def forward(self, x: Tensor) -> Tensor:
        """As `linear.columns`."""
        return linear.columns(self, x)  # type: ignore[arg-type]


class Rows(Styled):
    """A linear layer whose input features are split."""

    @_eager
    def forward(self, x: Tensor) -> Tensor:
        """As `linear.rows`."""
        return linear.rows(self, x)  # type: ignore[arg-type]


class Features(Styled):
    """An embedding whose features are split."""

    @_eager
    def forward(self, ids: Tensor) -> Tensor:
        """As `embedding.features`."""
        return embedding.features(self, ids)  # type: ignore[arg-type]


class Vocabulary(Styled):
    """An embedding whose rows are split."""

    @_eager
    def forward(self, ids: Tensor) -> Tensor:
        """As `embedding.vocabulary`."""
        return embedding.vocabulary(self, ids)  # type: ignore[arg-type]


class Repeated(Styled):
    """A module that runs its own code on each block."""

    @_eager
    def forward(self, x: Tensor) -> Tensor:
        """As `repeated.repeated`."""
        own = vars(self).get(_OWN) or super().forward  # type: ignore[misc]
        return repeated.repeated(self, x, own)  # type: ignore[arg-type]


class Attended(Styled):
    """A module that computes attention."""

    @_eager
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As `attention.attention`."""
        own = super().forward  # type: ignore[misc]
        return attention.attention(self, own, *args, **kwargs)  # type: ignore[arg-type]


class ColumnsLinear(Columns, nn.Linear):
    """`nn.Linear` under `Columns`."""


class RowsLinear(Rows, nn.Linear):
    """`nn.Linear` under `Rows`."""


class FeaturesEmbedding(Features, nn.Embedding):
    """`nn.Embedding` under `Features`."""


class VocabularyEmbedding(Vocabulary, nn.Embedding):
    """`nn.Embedding` under `Vocabulary`."""


_MADE: dict[tuple[type[Styled], type[nn.Module]], type[nn.Module]] = {
    (Columns, nn.Linear): ColumnsLinear,
    (Rows, nn.Linear): RowsLinear,
    (Features, nn.Embedding): FeaturesEmbedding,
    (Vocabulary, nn.Embedding): VocabularyEmbedding,
}


def check_plain(module: nn.Module) -> None:
    """Refuses a module that has an invariant style.

    Raises:
        ValueError: it has.
    """
    if isinstance(module, Styled):
        raise ValueError(f"a {type(module).__name__} has an invariant style: it cannot be given another")


def restyle(module: nn.Module, style: type[Styled]) -> None:
    """Makes a module run under a style; it stays an instance of its class.

    Raises:
        ValueError: a forward has been set on the module itself, and the style would not run it.
    """
    own = type(module)
    if "forward" in vars(module):
        if not issubclass(style, Repeated):
            raise ValueError(f"this {own.__name__} has a forward of its own, which an invariant style would not run")
        setattr(module, _OWN, vars(module).pop("forward"))
    if (style, own) not in _MADE:
        _MADE[style, own] = type(f"{style.__name__}{own.__name__}", (style, own), {"__module__": own.__module__})
    module.__class__ = _MADE[style, own]
