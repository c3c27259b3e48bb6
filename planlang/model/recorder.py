"""The notes of a pass that is being captured: which tensors there were, and what happened, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from planlang.model.graph import Argument, Dim, Event, Kind, Op, Origin, Other, Ref, Slice, Value
from planlang.model.traced_int import TracedInt, as_argument

if TYPE_CHECKING:
    from torch import nn


class Recorder:
    """Numbers tensors and writes arguments as data.

    Attributes:
        values: every tensor seen, by number.
        events: what happened so far; inside a repeated layer, in it.
        layer: the name of the repeated layer that is running, if one is.
        paused: whether what happens now is the tracer's own doing and is not noted.
    """

    def __init__(self, model: nn.Module) -> None:
        self.values: list[Value] = []
        self.events: list[Event] = []
        self.layer: str | None = None
        self.paused = False
        self._numbers: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []  # so that no other object takes a tensor's id
        self._sharing: dict[int, list[int]] = {}
        self._names: dict[int, tuple[str, ...]] = {}
        self._origins: dict[int, Origin] = {}
        named: list[tuple[Origin, Any]] = [
            ("parameter", model.named_parameters(remove_duplicate=False)),
            ("buffer", model.named_buffers(remove_duplicate=False)),
        ]
        for origin, pairs in named:
            for name, tensor in pairs:
                self._names[id(tensor)] = (*self._names.get(id(tensor), ()), name)
                self._origins[id(tensor)] = origin

    def number(self, tensor: torch.Tensor, origin: Origin = "constant") -> int:
        """The number of a tensor; one that was never seen gets its number now."""
        key = id(tensor)
        if key not in self._numbers:
            self._numbers[key] = self._new(tensor, self._origins.get(key, origin), self._names.get(key, ()))
        return self._numbers[key]

    def result(self, tensor: torch.Tensor) -> int:
        """The number of a result; an operator that returns its input (`contiguous`) makes a new value all the same."""
        self._numbers[id(tensor)] = self._new(tensor, "computed")
        return self._numbers[id(tensor)]

    def sharing(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """The values so far that share memory with a tensor."""
        return tuple(self._sharing.get(_storage(tensor), ()))

    def names(self, tensor: torch.Tensor) -> tuple[str, ...]:
        """Every name of a parameter or buffer in the model; none for other tensors."""
        return self._names.get(id(tensor), ())

    def _new(self, tensor: torch.Tensor, origin: Origin, names: tuple[str, ...] = ()) -> int:
        if self.layer is not None:  # inside a body names are relative to the layer, where they lie in it
            inside = tuple(name.removeprefix(self.layer + ".") for name in names if name.startswith(self.layer + "."))
            names = inside if len(inside) == len(names) else tuple("/" + name for name in names)
        with self.quiet():
            shape, kind, grad = tuple(map(int, tensor.shape)), _kind(tensor), tensor.requires_grad
            storage = _storage(tensor)
        self._alive.append(tensor)
        self.values.append(Value(shape, kind, origin, grad, names))
        number = len(self.values) - 1
        self._sharing.setdefault(storage, []).append(number)
        return number

    def sizes(self, tensor: torch.Tensor) -> list[TracedInt]:
        """The shape of a tensor as integers that know where they came from."""
        number = self.number(tensor)
        with self.quiet():
            return [TracedInt(int(size), Dim(number, dim), self) for dim, size in enumerate(tensor.shape)]

    def encode(self, value: Any) -> Argument:
        """An argument as data."""
        match value:
            case torch.Tensor():
                return Ref(self.number(value))
            case TracedInt():
                return as_argument(value)
            case bool() | int() | float() | str() | None:
                return value
            case slice():
                return Slice(self.encode(value.start), self.encode(value.stop), self.encode(value.step))
            case tuple() | list():
                return tuple(self.encode(each) for each in value)
            case Mapping():
                return tuple(self.encode(each) for each in value.values())
            case _:
                return Other(
                    "..." if value is ... else str(value) if isinstance(value, torch.dtype) else type(value).__name__
                )

    def outputs(self, result: Any) -> tuple[Argument, ...]:
        """What a module returned; a lone tensor is one output."""
        encoded = self.encode(result)
        return encoded if isinstance(result, tuple | list | Mapping) and isinstance(encoded, tuple) else (encoded,)

    def keywords(self, kwargs: Mapping[str, Any]) -> tuple[tuple[str, Argument], ...]:
        """Arguments by name as data."""
        return tuple((name, self.encode(each)) for name, each in kwargs.items())

    def note(self, event: Event) -> None:
        """Adds an event."""
        self.events.append(event)

    def maker(self, value: int) -> str:
        """The operator that made a value; empty where none did."""
        return next((each.name for each in reversed(self.events) if isinstance(each, Op) and value in each.outs), "")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What happens inside is not noted."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before


def _kind(tensor: torch.Tensor) -> Kind:
    if tensor.is_floating_point() or tensor.is_complex():
        return "float"
    return "bool" if tensor.dtype is torch.bool else "int"


def _storage(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a tensor of torch's functional transforms has none
        return id(tensor)
