"""Captures a graph: one forward pass of a live module, seen through torch's function mode and wrapped forwards.

The pass usually runs on fake tensors (`planlang.model.graphs`), but nothing here needs that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from planlang.model.graph import Argument, Call, Enter, Event, Graph, Guard, Leave, Op, Ref
from planlang.model.layers import Body, described, layers, signature
from planlang.model.recorder import Recorder
from planlang.model.traced_int import TracedInt

if TYPE_CHECKING:
    from torch import nn

# What is read off a tensor without computing anything.
_SHAPES = {"torch.Tensor.shape.__get__", "torch.Tensor.size"}
_COUNTS = {"torch.Tensor.numel", "torch.numel", "torch.Tensor.nelement"}
_DATA = {"torch.Tensor." + name for name in ("__bool__", "item", "tolist", "__int__", "__float__", "__index__")} | {
    "torch.equal",
    "torch.allclose",
    "torch.Tensor.equal",
    "torch.is_nonzero",
}


def trace(
    model: nn.Module,
    inputs: Mapping[str, Any] | tuple[Any, ...],
    *,
    batch: int = 0,
    length: int = 0,
    twins: bool = True,
    padded: bool = False,
) -> Graph:
    """The graph of one forward pass.

    Args:
        model: any module, in the mode in which it is to be seen; it is left as it is.
        inputs: the inputs of the pass, by name or by position.
        batch: how many sequences the inputs hold.
        length: how many tokens in each.
        twins: let a repeated layer answer with copies of what the first of its kind answered.
        padded: what code that looks into fake tensors is told: that some positions are masked, or that none is.

    Raises:
        TraceError: the model's code raised; the error names the module.
    """
    tracer = Tracer(model, padded=padded)
    notes = tracer.notes
    given = inputs.values() if isinstance(inputs, Mapping) else inputs
    for tensor in tree_flatten(list(given))[0]:
        if isinstance(tensor, torch.Tensor):
            notes.number(tensor, "input")
    try:
        with tracer.wrapped(twins=twins), tracer:
            result = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    except Exception as error:
        raise TraceError(tracer.failed_in, tracer.failed_at, error) from error
    outputs = tuple(notes.number(each) for each in tree_flatten(result)[0] if isinstance(each, torch.Tensor))
    return Graph(batch, length, tuple(notes.values), tuple(notes.events), tuple(tracer.bodies), outputs)


class TraceError(Exception):
    """The model's code raised while its graph was captured.

    Attributes:
        module: the innermost module that was running; empty for the model itself.
        operator: the operator that raised, or the last that did not.
        cause: what was raised.
    """

    def __init__(self, module: str, operator: str, cause: Exception) -> None:
        super().__init__(f"`{module or 'the model'}` raised {type(cause).__name__}: {cause}")
        self.module = module
        self.operator = operator
        self.cause = cause


class Tracer(TorchFunctionMode):
    """Notes the events of one forward pass.

    Attributes:
        notes: what was seen.
        bodies: the events of each kind of repeated layer.
        failed_in: the innermost module that raised.
        failed_at: the operator that raised, or the last before the model's own code did.
    """

    def __init__(self, model: nn.Module, *, padded: bool = False) -> None:
        super().__init__()
        self._padded = padded
        self.notes = Recorder(model)
        self.bodies: list[tuple[Event, ...]] = []
        self.failed_in = ""
        self.failed_at = ""
        self._model = model
        self._known: dict[Any, Body] = {}
        self._signatures: dict[nn.Module, Any] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.notes.paused:
            return func(*args, **kwargs)
        name = resolve_name(func) or getattr(func, "__name__", str(func))
        if name in _SHAPES:
            return self._shape(args[0], args[1] if len(args) > 1 else kwargs.get("dim"))
        if name in _COUNTS:
            total: Any = 1
            for size in self.notes.sizes(args[0]):
                total = size * total
            return total
        self.failed_at = name
        if name in _DATA:
            return self._data(name, func, args, kwargs)
        before = tuple(self.notes.encode(each) for each in args)
        named = self.notes.keywords(kwargs)
        result = func(*_plain(args), **_plain(kwargs))
        outs = [each for each in tree_flatten(result)[0] if isinstance(each, torch.Tensor)]
        written = _written(name, args, kwargs)
        if outs or written is not None:
            self._record(name, before, named, outs, written)
        return result

    def _record(
        self, name: str, args: tuple[Argument, ...], kwargs: Any, outs: list[torch.Tensor], written: torch.Tensor | None
    ) -> None:
        if written is None:
            self.notes.note(Op(name, args, kwargs, tuple(self.notes.result(out) for out in outs)))
            return
        sharing = self.notes.sharing(written)
        self.notes.note(Op(name, args, kwargs, (self.notes.result(written),), sharing))

    def _shape(self, tensor: torch.Tensor, which: Any) -> Any:
        sizes = self.notes.sizes(tensor)
        return torch.Size(sizes) if which is None else sizes[which]

    def _data(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """The code asks for a value. Fake tensors have none, so that the answer follows from what it is asked for."""
        operand = Ref(self.notes.number(args[0]))
        try:
            answer = func(*args, **kwargs)
        except RuntimeError:
            if not name.endswith(("__bool__", "is_nonzero")):
                raise
            question = self.notes.maker(operand.value).rpartition(".")[2]  # `(mask == 1).all()`, `(mask == 0).any()`
            answer = question == ("any" if self._padded else "all")
        self.notes.note(Guard(name, operand, None, bool(answer)))
        return answer

    @contextmanager
    def wrapped(self, *, twins: bool = True) -> Iterator[None]:
        """Lets every module note its entry and exit, and repeated layers answer what their first twin answered."""
        repeated = set(layers(self._model)) if twins else set()
        before: dict[nn.Module, Any] = {}
        for name, module in self._model.named_modules():
            before[module] = module.__dict__.get("forward")
            run = self._forward
            if module in repeated:
                self._signatures[module] = signature(module, self.notes.names, name)
                run = self._layer_forward
            module.forward = partial(run, module, name, module.forward)
        functions: Any = torch.autograd.Function
        apply = vars(functions)["apply"]
        functions.apply = classmethod(partial(self._function, apply.__func__))
        try:
            yield
        finally:
            functions.apply = apply
            for module, own in before.items():
                del module.__dict__["forward"]
                if own is not None:  # a forward of this object alone, which some libraries put there
                    module.__dict__["forward"] = own

    def _function(self, apply: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
        """An autograd function with a backward of its own is one operator, for which there is no rule."""
        notes = self.notes
        if notes.paused:
            return apply(cls, *args, **kwargs)
        before, named = tuple(notes.encode(each) for each in args), notes.keywords(kwargs)
        with notes.quiet():
            result = apply(cls, *_plain(args), **_plain(kwargs))
        outs = tuple(notes.result(each) for each in tree_flatten(result)[0] if isinstance(each, torch.Tensor))
        notes.note(Op(f"torch.autograd.{cls.__name__}", before, named, outs))
        return result

    def _forward(self, module: nn.Module, name: str, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        notes = self.notes
        relative = name if notes.layer is None else name.removeprefix(notes.layer).removeprefix(".")
        notes.note(Enter(relative, tuple(notes.encode(each) for each in args), notes.keywords(kwargs)))
        try:
            result = forward(*args, **kwargs)
        except Exception:
            self.failed_in = self.failed_in or name
            raise
        notes.note(Leave(relative, notes.outputs(result)))
        return result

    def _layer_forward(
        self, module: nn.Module, name: str, forward: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs the first layer of its kind and notes what it did; the others answer with new tensors like its own."""
        notes = self.notes
        if notes.layer is not None:
            return self._forward(module, name, forward, *args, **kwargs)
        leaves, structure = tree_flatten((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        numbers = [notes.number(each) for each in tensors]
        same = tuple(numbers.index(number) for number in numbers)  # which of the inputs are one tensor
        with notes.quiet():
            key = (self._signatures[module], str(structure), tuple(map(described, leaves)), same)
        if key not in self._known:
            self._known[key] = self._run(module, name, forward, numbers, args, kwargs)
        body = self._known[key]
        inputs = dict(zip(body.inputs, numbers, strict=True))
        answers: dict[int, torch.Tensor] = {inner: tensors[numbers.index(outer)] for inner, outer in inputs.items()}
        outputs: dict[int, int] = {}
        for number, tensor in body.made.items():
            with notes.quiet(), torch.no_grad():
                answers[number] = tensor.clone().requires_grad_(tensor.requires_grad)
            outputs[number] = notes.result(answers[number])
        notes.note(Call(name, body.number, tuple(inputs.items()), tuple(outputs.items())))
        return tree_unflatten(
            [answers[out.value] if isinstance(out, Ref) else out for out in body.outs], body.structure
        )

    def _run(
        self, module: nn.Module, name: str, forward: Callable[..., Any], numbers: list[int], args: Any, kwargs: Any
    ) -> Body:
        notes = self.notes
        outside, first = notes.events, len(notes.values)
        notes.events, notes.layer = [], name
        try:
            result = self._forward(module, name, forward, *args, **kwargs)
        finally:
            inside, notes.events, notes.layer = tuple(notes.events), outside, None
        self.bodies.append(inside)
        leaves, structure = tree_flatten(result)
        outs: list[Any] = []
        made: dict[int, torch.Tensor] = {}
        for leaf in leaves:
            number = notes.number(leaf) if isinstance(leaf, torch.Tensor) else -1
            if number >= first:
                made[number] = leaf
            outs.append(Ref(number) if number in made or number in numbers else leaf)
        return Body(len(self.bodies) - 1, tuple(numbers), outs, made, structure)


def _plain(value: Any) -> Any:
    return tree_map(lambda each: int(each) if isinstance(each, TracedInt) else each, value)


def _written(name: str, args: Any, kwargs: Any) -> torch.Tensor | None:
    """The tensor that an in-place operator writes to."""
    last = name.rpartition(".")[2]
    in_place = last.endswith("_") and not last.endswith("__")
    if in_place or last == "__setitem__" or (last.startswith("__i") and last.endswith("__")):
        return args[0] if args and isinstance(args[0], torch.Tensor) else None
    out = kwargs.get("out")
    return out if isinstance(out, torch.Tensor) else None
