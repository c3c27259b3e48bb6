"""Modules under a style: their class is a subclass of their own whose forward runs in blocks, as FSDP2 does it.

A forward that is bound to a module and kept on it would be a reference cycle, which keeps the module's memory until the
garbage collector comes, and a copy of the module would run on the parameters of the first.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from planlang.runtime.invariant import attention, embedding, linear, repeated
from planlang.runtime.invariant.shared import given

_OWN = "_invariant_own_forward"
_REASON = "planlang: the blocks of an invariant style are not compiled, to keep their bits"


class Styled:
    """What is common to all modules under a style."""

    def __setstate__(self, state: Any) -> None:
        """Of a module from a file, whose class may never have been given to another here."""
        _keep_out_of_compilation()
        super().__setstate__(state)  # type: ignore[misc]


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

    def forward(self, x: Tensor) -> Tensor:
        """As `linear.columns`."""
        return linear.columns(self, x)  # type: ignore[arg-type]


class Rows(Styled):
    """A linear layer whose input features are split."""

    def forward(self, x: Tensor) -> Tensor:
        """As `linear.rows`."""
        return linear.rows(self, x)  # type: ignore[arg-type]


class Features(Styled):
    """An embedding whose features are split."""

    def forward(self, ids: Tensor) -> Tensor:
        """As `embedding.features`."""
        return embedding.features(self, ids)  # type: ignore[arg-type]


class Vocabulary(Styled):
    """An embedding whose rows are split."""

    def forward(self, ids: Tensor) -> Tensor:
        """As `embedding.vocabulary`."""
        return embedding.vocabulary(self, ids)  # type: ignore[arg-type]


class Repeated(Styled):
    """A module that runs its own code on each block."""

    def forward(self, x: Tensor) -> Tensor:
        """As `repeated.repeated`."""
        own = vars(self).get(_OWN) or super().forward  # type: ignore[misc]
        return repeated.repeated(self, x, own)  # type: ignore[arg-type]


class Attended(Styled):
    """A module that computes attention."""

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


@cache
def _keep_out_of_compilation() -> None:
    """Has `torch.compile` compile what lies between these modules alone; with `fullgraph=True` it raises.

    A compiler fuses and tiles by the widths that a rank has, which is what blocks are there to hide. Not done when this
    file is imported: torch then imports its compiler, which takes long and makes a folder for what it compiles.
    """
    for style in (Columns, Rows, Features, Vocabulary, Repeated, Attended):
        kept = torch.compiler.disable(vars(style)["forward"], reason=_REASON)  # type: ignore[no-untyped-call]
        style.forward = kept  # type: ignore[method-assign]


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
    _keep_out_of_compilation()
    own = type(module)
    if "forward" in vars(module):
        if not issubclass(style, Repeated):
            raise ValueError(f"this {own.__name__} has a forward of its own, which an invariant style would not run")
        setattr(module, _OWN, vars(module).pop("forward"))
    if (style, own) not in _MADE:
        _MADE[style, own] = type(f"{style.__name__}{own.__name__}", (style, own), {"__module__": own.__module__})
    module.__class__ = _MADE[style, own]
