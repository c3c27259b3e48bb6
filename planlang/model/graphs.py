"""Captures the passes of a model: of a transformers configuration on fake tensors, of any module at example inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planlang.model.calls import silence
from planlang.model.graph_cache import cached
from planlang.model.packing import pack
from planlang.model.passes import ATTENTION, PASSES, record_passes, sentence
from planlang.model.pretrained import build, default_class, model_class
from planlang.model.records import record
from planlang.model.template import Graphs, unpack

if TYPE_CHECKING:
    from torch import nn


def capture_graphs(model: Any, cls: str | None = None) -> Graphs:
    """The passes of a language model.

    Args:
        model: a `transformers.PretrainedConfig`, or a live model of transformers, which is left as it is.
        cls: for a configuration, the model class; by default the first of `config.architectures`, then the one for
            causal language models.

    Returns:
        The passes `plain`, `masked`, `step` and `eager`, without those in which the model's code failed.

    Raises:
        CaptureError: transformers has no such class, or cannot build it from the configuration.
    """
    return unpack(capture_document(model, cls), "")


def graphs_of(model: Any, cls: str | None = None) -> Graphs:
    """The same, kept in the user's cache where the code of the model is transformers' own.

    Raises:
        CaptureError: as for `capture_graphs`.
    """
    from torch import nn

    about: list[Any] | None = []
    if isinstance(model, nn.Module):
        from planlang.model.shells import description

        about = description(model)
    config = getattr(model, "config", model)
    if about is None or not hasattr(config, "to_dict"):
        return capture_graphs(model, cls)
    cls_name = type(model).__name__ if about else cls or default_class(config).__name__
    key = {"config": config.to_dict(), "attention": config._attn_implementation, "cls": cls_name, "model": about}
    return cached(key, lambda: capture_document(model, cls))


def capture_document(model: Any, cls: str | None = None) -> Any:
    """The same as a document (`planlang.model.packing`) of one model, called "".

    Raises:
        CaptureError: as for `capture_graphs`.
    """
    records, failures = capture_records(model, cls)
    return pack({"": records}, {"": failures})


def capture_records(model: Any, cls: str | None = None) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """What `capture_graphs` is made of: the records of each pass, and why others are not there.

    Raises:
        CaptureError: as for `capture_graphs`.
    """
    from torch import nn

    if not isinstance(model, nn.Module):
        found, config = model_class(cls) if cls else default_class(model), copy.deepcopy(model)
        if reason := _other_input(found):
            return {}, dict.fromkeys(PASSES, reason)
        if config._attn_implementation not in ATTENTION:  # kernels that may not be installed here
            config._attn_implementation = None
        return record_passes(build(found, config))
    if not hasattr(getattr(model, "config", None), "_attn_implementation"):
        reason = f"a `{type(model).__name__}` is no language model of transformers, so its inputs are not known"
        return {}, dict.fromkeys(PASSES, reason)
    if reason := _other_input(type(model)):
        return {}, dict.fromkeys(PASSES, reason)
    from planlang.model.shells import shell

    return record_passes(shell(model))


def _other_input(cls: type) -> str:
    """Why the inputs of a model of transformers are not known, where it is no language model."""
    name = getattr(cls, "main_input_name", "input_ids")
    return "" if name == "input_ids" else f"a `{cls.__name__}` takes `{name}`, and only `input_ids` are made up here"


def trace_module(model: nn.Module, example_inputs: Mapping[str, Any] | tuple[Any, ...]) -> Graphs:
    """The one pass `example` of a module, at the sizes of its inputs.

    It is really run, with the tensors that it has, in the mode that it has; buffers and the state of torch's random
    numbers are set back.

    Args:
        model: any module.
        example_inputs: the inputs of the pass, by name or by position. The first two dims of the first tensor are
            called batch and length.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    from planlang.model.trace import TraceError, trace

    first = next((each for each in tree_leaves(example_inputs) if isinstance(each, torch.Tensor)), torch.empty(0))
    batch, length, *_ = (*first.shape, 1, 1)
    before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        with silence(), torch.random.fork_rng(devices=[]):
            graph = trace(model, example_inputs, batch=batch, length=length)
    except TraceError as error:
        return Graphs({}, {"example": sentence(error)})
    finally:
        with torch.no_grad():
            for buffer, content in before:
                buffer.copy_(content)
    return unpack(pack({"": {"example": [record([graph])]}}, {}), "")
