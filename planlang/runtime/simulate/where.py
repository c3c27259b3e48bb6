"""In which module an exception was raised."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


class Where:
    """Follows a forward pass and knows the modules that it is inside of; follows its backward pass too.

    A module's backward begins with the gradient of its output, and ends with that of its input.

    Made before styles are applied, so that a module is entered before the hooks of its style run; `close` it after, so
    that a module is left only when those have run. Hooks that follow an exception do not run, so the names stay.
    """

    def __init__(self, model: nn.Module) -> None:
        self.inside: list[str] = []
        self.back = ""  # the module whose backward is running
        self._modules = dict(model.named_modules())
        for name, module in self._modules.items():
            module.register_forward_pre_hook(self._enter(name), with_kwargs=True)

    def close(self) -> None:
        """Has modules be left behind all hooks that they have by now."""
        for name, module in self._modules.items():
            module.register_forward_hook(self._leave(name))

    @property
    def innermost(self) -> str:
        """The name of the module whose forward is running; empty for the model itself."""
        return self.inside[-1] if self.inside else ""

    def _enter(self, name: str) -> Any:
        def ended(gradient: Tensor) -> None:
            if _is_inside(self.back, name):
                self.back = name.rpartition(".")[0]

        def hook(module: nn.Module, args: object, kwargs: object) -> None:
            self.inside.append(name)
            _watch((args, kwargs), ended)

        return hook

    def _leave(self, name: str) -> Any:
        def begun(gradient: Tensor) -> None:
            if not _is_inside(self.back, name):  # it is if the output is that of a module inside, which was told first
                self.back = name

        def hook(module: nn.Module, args: object, output: object) -> None:
            self.inside.pop()
            _watch(output, begun)

        return hook


def _watch(values: object, hook: Callable[[Tensor], None]) -> None:
    """Has a hook be called with the gradient of each tensor among values."""
    for each in tree_leaves(values):
        if isinstance(each, Tensor) and each.requires_grad:
            each.register_hook(hook)  # type: ignore[no-untyped-call]


def _is_inside(name: str, outer: str) -> bool:
    return not outer or name == outer or name.startswith(f"{outer}.")


def origin(error: BaseException) -> str:
    """The file and line that raised, by the end of its path."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    frame = frames[-1]
    return f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}"
