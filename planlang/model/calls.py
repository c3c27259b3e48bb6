"""How the modules of a model are called: the rank of every tensor that enters and leaves them in one forward pass.

To see it without weights, the pass runs on fake tensors, in which a repeated layer answers what its first twin
answered, so that 64 layers cost about as much as one.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from planlang.indices import IndexSet
from planlang.model.intern import Interner
from planlang.model.tree import Call, Child, Node

if TYPE_CHECKING:
    import torch
    from torch import nn


def record_calls(
    model: nn.Module, root: Node, example_inputs: Mapping[str, Any] | tuple[Any, ...], *, twins: bool = False
) -> dict[str, Call]:
    """The calls of one forward pass without gradients, in evaluation mode; none at all where the pass fails.

    Args:
        model: the live module; its mode is set back afterwards.
        root: its node, for which layers are repeated.
        example_inputs: the inputs of the pass, by name or by position.
        twins: let a repeated layer answer what the first layer equal to it answered. Right only for tensors without
            values.

    Returns:
        Calls by module name, repeated layers under their first index; without modules whose calls differed.
    """
    import torch

    seen: dict[str, set[Call]] = {}
    answers: dict[str, Any] = {}

    def note(path: str, _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        keywords = tuple((name, _rank(value)) for name, value in kwargs.items())
        seen.setdefault(path, set()).add(Call(tuple(map(_rank, args)), keywords, _output_ranks(output)))
        answers[path] = output

    def answer(path: str, *_args: Any, **_kwargs: Any) -> Any:
        return answers[path]

    handles, silent = [], []
    modes = [(module, module.training) for module in model.modules()]
    for path, modules in _instances(model, root):
        heard = modules[:1] if twins else modules
        handles += [module.register_forward_hook(partial(note, path), with_kwargs=True) for module in heard]
        silent += [(module, path) for module in modules[len(heard) :]]
    for module, path in silent:
        module.forward = partial(answer, path)
    try:
        model.eval()
        with silence(), torch.no_grad():
            model(**example_inputs) if isinstance(example_inputs, Mapping) else model(*example_inputs)
    except Exception:  # Calls are a help, not a need, and a model's code may raise anything.
        return {}
    finally:
        for handle in handles:
            handle.remove()
        for module, _ in silent:
            module.__dict__.pop("forward", None)
        for module, mode in modes:
            module.training = mode
    return {path: next(iter(calls)) for path, calls in seen.items() if len(calls) == 1}


def fake_calls(model: nn.Module, root: Node) -> dict[str, Call]:
    """The calls of a language model on the meta device, which is used up: its parameters become fake tensors.

    Meta tensors themselves will not do, since transformers asks its attention masks for their values. The fakes are
    bfloat16, since the grouped product of mixture models takes nothing else, and the batch is 1, since a classifier
    without a padding token takes no more.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        make_fake(model)
        tokens = torch.ones((1, 8), dtype=torch.int64)
        inputs: dict[str, Any] = {"input_ids": tokens, "use_cache": False}
        if "decoder_input_ids" in inspect.signature(model.forward).parameters:
            inputs["decoder_input_ids"] = tokens
        # Layers that look into each other's caches cannot stand in for one another: then every layer runs.
        return record_calls(model, root, inputs, twins=True) or record_calls(model, root, inputs)


def with_calls(root: Node, calls: Mapping[str, Call]) -> Node:
    """The node with the calls that `record_calls` found; equal modules that are called differently become two nodes."""
    interner = Interner()

    def visit(path: str, node: Node) -> Node:
        children = tuple(Child(child.name, visit(_join(path, child.name), child.node)) for child in node.children)
        return interner.intern(replace(node, children=children, call=calls.get(path)))

    return visit("", root)


@contextmanager
def silence() -> Iterator[None]:
    """Without warnings and log lines of torch and transformers, which would reach the user as if they were ours."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def make_fake(model: nn.Module, *, gradients: bool = False) -> None:
    """Put a fake tensor in place of every parameter and buffer; tied parameters stay tied.

    Args:
        model: the module, under a `FakeTensorMode`.
        gradients: whether parameters want gradients.
    """
    import torch

    made: dict[int, nn.Parameter] = {}

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        dtype = torch.bfloat16 if tensor.is_floating_point() else tensor.dtype
        return torch.empty(tensor.shape, dtype=dtype, device="cpu")

    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in made:
                made[id(parameter)] = torch.nn.Parameter(fake(parameter), requires_grad=gradients)
            module._parameters[name] = None if parameter is None else made[id(parameter)]
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else fake(buffer)


def _instances(model: nn.Module, root: Node) -> Iterator[tuple[str, list[nn.Module]]]:
    """Every name of the tree, with its first index for an index set, and all modules that it stands for."""
    stack = [("", root, [model])]
    while stack:
        path, node, modules = stack.pop()
        yield path, modules
        for child in node.children:
            names = [str(index) for index in child.name] if isinstance(child.name, IndexSet) else [child.name]
            below = [module.get_submodule(name) for module in modules for name in names]
            stack.append((_join(path, child.name), child.node, below))


def _join(path: str, name: str | IndexSet) -> str:
    step = str(min(name)) if isinstance(name, IndexSet) else name
    return f"{path}.{step}" if path else step


def _rank(value: Any) -> int | None:
    """The number of dims of a tensor; `None` for anything else, a pair of tensors too."""
    import torch

    return value.dim() if isinstance(value, torch.Tensor) else None


def _output_ranks(output: Any) -> tuple[int | None, ...]:
    if isinstance(output, Mapping):  # transformers' `ModelOutput`
        return tuple(map(_rank, output.values()))
    return tuple(map(_rank, output)) if isinstance(output, tuple | list) else (_rank(output),)
