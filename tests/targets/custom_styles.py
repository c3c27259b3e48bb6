"""Styles that a user of the language might have."""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor.parallel import ColwiseParallel


class Scaled(ColwiseParallel):
    """Shows what it was made from."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({self.arguments!r})"


class Outer(Scaled):
    """A class with a class inside."""

    class Inner(Scaled):
        """The one inside."""


Outer.Outer = Outer
