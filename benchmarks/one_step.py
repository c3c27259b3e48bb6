"""One forward and backward pass of Qwen3-32B as a rank of 8 would run it, on fake tensors: what `check` stands beside.

    python -m benchmarks.one_step QWEN_STABLE.py

The plan is a module that `planlang compile` wrote, so that nothing of planlang is imported.
"""

from __future__ import annotations

import runpy
import sys

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import Qwen3Config, Qwen3ForCausalLM

RANKS = 8
BATCH, LENGTH = 9, 56  # as the first pass that `planlang check` looks at


def main(plan: str) -> None:
    """Builds, parallelizes and runs the model."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    config = Qwen3Config(
        hidden_size=5120,
        intermediate_size=25600,
        num_hidden_layers=64,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        tie_word_embeddings=False,
        use_cache=False,
    )
    with FakeTensorMode():
        model = Qwen3ForCausalLM(config)
        parallelize_module(model, mesh, runpy.run_path(plan)["qwen_stable"]())
        logits = model(input_ids=torch.ones((BATCH, LENGTH), dtype=torch.int64)).logits
        logits.backward(torch.ones_like(logits))
        assert all(parameter.grad is not None for parameter in model.parameters())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
