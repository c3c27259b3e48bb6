"""What `torch.compile` makes of a model under invariant styles: it leaves their modules as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from invariant_runs import VOCABULARY, batch, build, one_process
from torch import Tensor, nn
from torch.fx import GraphModule

import planlang

pytestmark = pytest.mark.filterwarnings("ignore")  # dynamo meets what torch warns of, on its own way

# What a kernel library adds up: a compiler may choose another kernel, or another order, for it.
ADDING = ("linear", "mm", "matmul", "bmm", "addmm", "embedding", "scaled_dot_product_attention", "silu")


@pytest.fixture
def model() -> Iterator[nn.Module]:
    """A small Qwen3 under `qwen_invariant` on one process."""
    with one_process("tp") as mesh:
        yield planlang.parallelize(build("qwen3", torch.float32), mesh, "qwen_invariant")
        torch.compiler.reset()


def logits(model: Any, tokens: Tensor) -> Tensor:
    found: Tensor = model(input_ids=tokens).logits
    return found


def test_what_adds_up_is_not_compiled(model: nn.Module) -> None:
    seen: list[str] = []

    def look(graph: GraphModule, inputs: list[Any]) -> Any:
        seen.extend(node.name.rstrip("_0123456789") for node in graph.graph.nodes if node.op != "placeholder")
        return graph.forward

    tokens, _ = batch("qwen3", 3, 17)
    right = logits(model, tokens)
    got = logits(torch.compile(model, backend=look), tokens)
    assert got.shape[-1] == VOCABULARY
    assert torch.equal(got.full_tensor(), right.full_tensor())  # type: ignore[attr-defined]
    assert "rsqrt" in seen  # the norms of the hidden size, which are whole on every rank
    assert not [name for name in seen if name in ADDING]


def test_one_graph_for_all_is_refused_with_the_reason(model: nn.Module) -> None:
    tokens, _ = batch("qwen3", 3, 17)
    with pytest.raises(Exception, match="blocks of an invariant style are not compiled"):
        logits(torch.compile(model, fullgraph=True, backend="eager"), tokens)
