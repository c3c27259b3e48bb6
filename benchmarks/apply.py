"""`planlang.parallelize` on a 64-layer Qwen3 on fake tensors, beside `parallelize_module` with the same dict."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import Qwen3Config, Qwen3ForCausalLM

import planlang
from benchmarks.timing import Pairs, report, seconds_of

RANKS = 8
LAYERS = 64
RUNS = 10


def main() -> None:
    """Prints the ratio for one bundled plan; building the model is not timed."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    config = Qwen3Config(
        hidden_size=5120,
        intermediate_size=25600,
        num_hidden_layers=LAYERS,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        tie_word_embeddings=False,
    )
    with FakeTensorMode():
        plan = planlang.load("qwen_stable")
        seconds: list[tuple[float, float]] = []
        for run in range(RUNS + 1):
            turns = {"ours": partial(planlang.parallelize, build(config), mesh, plan)}
            turns["theirs"] = partial(parallelize_module, build(config), mesh, plan.styles())
            order = list(turns) if run % 2 else list(turns)[::-1]  # whoever comes second finds a fuller heap
            taken = {name: seconds_of(turns[name]) for name in order}
            if run:  # the first warms up
                seconds.append((taken["ours"], taken["theirs"]))
    pairs = Pairs(tuple(a for a, _ in seconds), tuple(b for _, b in seconds))
    report(f"parallelize, {LAYERS} layers / parallelize_module", pairs, 1.0)
    dist.destroy_process_group()


def build(config: Qwen3Config) -> nn.Module:
    """The model on fake tensors of the current mode."""
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config)


if __name__ == "__main__":
    main()
