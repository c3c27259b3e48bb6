"""In which module an exception was raised."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from torch import nn


class Where:
    """Follows a forward pass and knows the modules that it is inside of.

    Made before styles are applied, so that a module is entered before the hooks of its style run; `close` it after, so
    that a module is left only when those have run. Hooks that follow an exception do not run, so the names stay.
    """

    def __init__(self, model: nn.Module) -> None:
        self.inside: list[str] = []
        self._modules = dict(model.named_modules())
        for name, module in self._modules.items():
            module.register_forward_pre_hook(self._enter(name))

    def close(self) -> None:
        """Has modules be left behind all hooks that they have by now."""
        for module in self._modules.values():
            module.register_forward_hook(self._leave)

    @property
    def innermost(self) -> str:
        """The name of the module whose forward is running; empty for the model itself."""
        return self.inside[-1] if self.inside else ""

    def _enter(self, name: str) -> Any:
        def hook(module: nn.Module, args: object) -> None:
            self.inside.append(name)

        return hook

    def _leave(self, module: nn.Module, args: object, output: object) -> None:
        self.inside.pop()


def origin(error: BaseException) -> str:
    """The file and line that raised, by the end of its path."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    frame = frames[-1]
    return f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}"
