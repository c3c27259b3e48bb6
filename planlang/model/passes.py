"""Runs the model of a transformers configuration in several ways on fake tensors, and records what it did."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planlang.model.calls import make_fake, silence
from planlang.model.formulas import Inexpressible, Setting
from planlang.model.graph import Graph
from planlang.model.packing import pack
from planlang.model.records import record
from planlang.model.template import SizeError, unpack

if TYPE_CHECKING:
    from torch import nn

    from planlang.model.trace import TraceError

# What a model has of its own is rarely 5, 14 or 22, and never all of a row, so that sizes are told from constants.
_SIZES: tuple[Setting, ...] = ((3, 10), (5, 14), (4, 22))
_STEPS: tuple[Setting, ...] = ((2, 1), (3, 1), (5, 1))
# Transformers' names for what runs on fake tensors; other kernels treat heads alike.
ATTENTION = (None, "sdpa", "eager")


@dataclass(frozen=True, slots=True)
class Pass:
    """A way to run a model.

    Attributes:
        settings: batch sizes and lengths at which it is captured.
        masked: whether a padding mask is given, which masks something.
        attention: transformers' name for how attention is computed; what the model prefers where empty.
    """

    settings: tuple[Setting, ...]
    masked: bool = False
    attention: str = ""


PASSES = {
    "plain": Pass(_SIZES),
    "masked": Pass(_SIZES, masked=True),
    "step": Pass(_STEPS),
    "eager": Pass(_SIZES, attention="eager"),
}


def record_passes(model: nn.Module) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """The records of all passes of a model of transformers; the model is used up, its parameters become fake."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from planlang.model.trace import TraceError

    records: dict[str, list[Any]] = {}
    failures: dict[str, str] = {}
    model.eval()
    config: Any = model.config
    if getattr(config, "pad_token_id", None) is None:  # without it a classifier takes one sequence only
        config.pad_token_id = 0
    with silence(), FakeTensorMode(allow_non_fake_inputs=True):
        make_fake(model, gradients=True)
        if config._attn_implementation not in ATTENTION:
            model.set_attn_implementation("sdpa")  # type: ignore[operator]
        for kind, each in PASSES.items():
            try:
                records[kind], problem = _cases(model, each)
            except TraceError as error:
                problem = sentence(error)
            except ValueError as error:  # how transformers refuses a way to compute attention
                problem = " ".join(str(error).split())[:300]
            if problem:
                failures[kind] = problem
    return records, failures


def _cases(model: nn.Module, way: Pass) -> tuple[list[Any], str]:
    """The records of one pass, and why they hold at the sizes captured only, if so."""
    graphs = _runs(model, way, way.settings)
    try:
        cases = [record(graphs)]
    except Inexpressible as error:
        return [record([graph]) for graph in graphs], f"known at some sizes only: {error}"
    length = way.settings[0][1]
    try:
        unpack(pack({"": {"": cases}}, {}), "").passes[""].at(1, length)
    except SizeError:  # some code goes another way for a single sequence
        from planlang.model.trace import TraceError

        try:
            cases.append(record(_runs(model, way, tuple(dict.fromkeys((1, length) for _, length in way.settings)))))
        except (Inexpressible, TraceError) as error:
            return cases, f"not known at batch 1: {error if isinstance(error, Inexpressible) else sentence(error)}"
    return cases, ""


def _runs(model: nn.Module, way: Pass, settings: tuple[Setting, ...]) -> list[Graph]:
    return [run(model, way, batch, length) for batch, length in settings]


def run(model: nn.Module, way: Pass, batch: int, length: int) -> Graph:
    """One pass on fake tensors, whose layers all run where they cannot stand in for one another."""
    import torch

    from planlang.model.trace import TraceError, trace

    tokens = torch.ones((batch, length), dtype=torch.int64)
    taken = inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {"input_ids": tokens}
    if "decoder_input_ids" in taken:
        inputs["decoder_input_ids"] = tokens.clone()
    if way.masked:
        inputs["attention_mask"] = torch.ones_like(tokens)
    if "use_cache" in taken or hasattr(model.config, "use_cache"):
        inputs["use_cache"] = False
    with _as_on_real_tensors(), _attention(model, way.attention):
        try:
            return trace(model, inputs, batch=batch, length=length, padded=way.masked)
        except TraceError:
            return trace(model, inputs, batch=batch, length=length, padded=way.masked, twins=False)


@contextmanager
def _as_on_real_tensors() -> Iterator[None]:
    """Lets transformers decide about masks as it does on real tensors; it takes the fake ones for a compiler's."""
    from transformers import masking_utils

    before = vars(masking_utils)["is_tracing"]
    vars(masking_utils)["is_tracing"] = lambda *_args: False
    try:
        yield
    finally:
        vars(masking_utils)["is_tracing"] = before


@contextmanager
def _attention(model: Any, name: str) -> Iterator[None]:
    before = model.config._attn_implementation
    if name:
        model.set_attn_implementation(name)
    try:
        yield
    finally:
        if name:
            model.set_attn_implementation(before)


def sentence(error: TraceError) -> str:
    """What went wrong, in one line."""
    reason = " ".join(str(error.cause).split()) or type(error.cause).__name__
    where = f" at `{error.operator}`" if error.operator else ""
    return f"`{error.module or 'the model'}` failed{where}: {reason[:300]}"
