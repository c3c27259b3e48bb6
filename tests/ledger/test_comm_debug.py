"""The ledger holds what `CommDebugMode` counts, with the bytes that go in; a small sample of `benchmarks/ledger.py`."""

from __future__ import annotations

from functools import cache, partial

import measured
import pytest
import torch
import twins
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import planlang
from planlang.analysis.cost.ledger import Ledger, ledger
from planlang.analysis.flow.applied import setup
from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.passes import run
from planlang.analysis.flow.setup import Setup
from planlang.layout import Replicate, Shard
from planlang.model.capture import capture_module
from planlang.model.graph import Graph
from planlang.model.trace import trace
from planlang.model.tree import Kind
from planlang.plan.styles import Colwise, Prepare, Rowwise, Sequence, Style
from planlang.runtime.apply import apply
from plans import Plan, expand, right_plans

BUNDLED = ("qwen", "qwen_stable", "qwen_sequence")
TWINS = ("qwen2", "qwen2_tied", "qwen2_score", "qwen3", "qwen3_tied", "qwen3_score", "qwen3_uneven")
FLOAT64 = 8


@cache
def graph(twin: str, layers: int, batch: int, length: int) -> Graph:
    with torch.enable_grad():
        inputs = twins.inputs(twin, batch=batch, length=length)
        return trace(twins.make(twin, layers=layers), inputs, batch=batch, length=length)


def check(ours: Ledger, theirs: measured.Measured) -> None:
    """They agree kind by kind and byte by byte, forward and backward."""
    assert ours.complete
    assert measured.tally(ours, "forward") == theirs.forward
    assert measured.tally(ours, "backward") == theirs.backward
    deferred = [entry for entry in ours.entries if entry.phase == "deferred"]
    assert sum(entry.count for entry in deferred) == len(theirs.partial)


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("plan", BUNDLED)
@pytest.mark.parametrize("twin", TWINS)
def test_bundled_plans(twin: str, plan: str, tp: int) -> None:
    def parallelize(model: nn.Module, mesh: DeviceMesh) -> None:
        planlang.parallelize(model, mesh, plan)

    compiled = planlang.load(plan).compile(capture_module(twins.make(twin, layers=2), "the twin"), tp=tp).checked()
    ours = ledger(run(setup(compiled.assignments[0], graph(twin, 2, 3, 10), "tp", tp)), "tp", FLOAT64)
    theirs = measured.measure(twins.make(twin, layers=2), twins.inputs(twin), measured.mesh_of(tp), parallelize)
    check(ours, theirs)
    assert all(entry.certain for entry in ours.entries)


@pytest.mark.parametrize("size", [(2, 3, 10), (4, 2, 1), (4, 1, 9)], ids=str)
@pytest.mark.parametrize(
    ("twin", "name"),
    [(twin, name) for twin in ("qwen3", "llama", "phi3", "qwen3_one_kv") for name in right_plans(twin)],
)
def test_right_plans(twin: str, name: str, size: tuple[int, int, int]) -> None:
    against_torch(twin, right_plans(twin)[name], size)


# Where no style says how, DTensor converts as it sees fit: in the head, in norms behind it, in sums of gradients.
CHOICES: dict[str, tuple[str, Plan]] = {
    "tokens into columns": ("sequence", {"lm_head": Colwise(local=False)}),
    "tokens into rows": ("sequence", {"lm_head": Rowwise()}),
    "tokens into rows, scattered": ("sequence", {"lm_head": Rowwise(out=Shard(1), local=False)}),
    "one projection gathers for itself": ("sequence", {"model.layers.*.self_attn.v_proj": Colwise()}),
    "gradients of two layouts": (
        "sequence",
        {"model.layers.*.self_attn.k_proj": Colwise(out=Replicate(), local=False)},
    ),
    "an input converted to what it is": ("stable_hoisted", {"model.layers.*.self_attn.k_proj": Colwise(in_=Shard(1))}),
    "a norm of cut features": ("sequence", {"model.norm": Sequence(dim=2)}),
    "a mlp without its gather": ("sequence_hoisted", {"model.layers.*.mlp": Prepare()}),
}


@pytest.mark.parametrize("size", [(2, 3, 10), (4, 2, 12)], ids=str)
@pytest.mark.parametrize("choice", CHOICES)
def test_what_dtensor_chooses(choice: str, size: tuple[int, int, int]) -> None:
    base, change = CHOICES[choice]
    against_torch("qwen3", {**right_plans("qwen3")[base], **change}, size)


def against_torch(twin: str, plan: Plan, size: tuple[int, int, int]) -> None:
    """Compares a plan on a twin of one layer, at some ranks, batch and length."""
    tp, batch, length = size
    styles = expand(plan, twins.module_names(twin))
    kinds = {name: kind_of(module) for name, module in twins.make(twin).named_modules()}
    applied = {name: Applied(style) for name, style in styles.items()}
    ours = ledger(run(Setup(graph(twin, 1, batch, length), applied, tp, kinds)), "tp", FLOAT64)
    inputs = twins.inputs(twin, batch=batch, length=length)
    check(ours, measured.measure(twins.make(twin), inputs, measured.mesh_of(tp), partial(apply_styles, styles)))


def apply_styles(styles: dict[str, Style], model: nn.Module, mesh: DeviceMesh) -> None:
    apply(model, mesh, {name: (style, None) for name, style in styles.items()})


def kind_of(module: nn.Module) -> Kind:
    if isinstance(module, nn.Linear):
        return Kind.LINEAR
    return Kind.EMBEDDING if isinstance(module, nn.Embedding) else Kind.OTHER
