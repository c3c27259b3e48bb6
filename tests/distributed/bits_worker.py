"""One of the processes that `test_invariant_processes.py` starts: `torchrun ... bits_worker.py OUT.json`.

A small model is trained under `qwen_invariant` on groups of 1, 2 and 4 of the processes. Every process writes down the
digest of all that it has; rank 0 collects them.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy, mse_loss
from transformers import (
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
)

import planlang

KINDS: dict[str, tuple[type[PreTrainedModel], type, bool]] = {
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, False),
    "qwen3-tied": (Qwen3ForCausalLM, Qwen3Config, True),
    "qwen2-bias": (Qwen2ForCausalLM, Qwen2Config, False),
    "qwen3-score": (Qwen3ForSequenceClassification, Qwen3Config, False),
}
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
PLANS = ("qwen_invariant", "qwen")
DEGREES = (1, 2, 4)
STEPS = 3
VOCABULARY = 64


def build(kind: str, dtype: torch.dtype) -> PreTrainedModel:
    """The seeded model, every parameter random and of a size that matters; a block of the MLP is 32 wide."""
    model_class, config_class, tied = KINDS[kind]
    config = config_class(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=8,
        head_dim=16,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        pad_token_id=0,
        num_labels=1,
        use_cache=False,
    )
    model = model_class(config)
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=source)
            parameter.copy_(1 + noise / 4 if "norm" in name else noise / 4)
    return model.to(dtype).train()


def digests(kind: str, dtype: torch.dtype, mesh: Any, plan: str) -> dict[str, str]:
    """What a training of `STEPS` steps leaves on this process, gathered, by name."""
    model = build(kind, dtype)
    planlang.parallelize(model, mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    source = torch.Generator().manual_seed(2)
    found: dict[str, Tensor] = {}
    for step in range(STEPS):
        tokens = torch.randint(1, VOCABULARY, (3, 17), generator=source)
        logits = model(input_ids=tokens).logits
        logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
        wide = logits.float()
        score = kind.endswith("score")
        loss = mse_loss(wide, torch.ones_like(wide)) if score else cross_entropy(wide.flatten(0, 1), tokens.flatten())
        loss.backward()
        found |= {f"{step} logits": logits, f"{step} loss": loss}
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            found[f"{step} gradient {name}"] = whole(parameter.grad).clone()
        found[f"{step} norm"] = planlang.clip_grad_norm_(model, 0.1)
        optimizer.step()
        optimizer.zero_grad()
        found |= {f"{step} weight {name}": whole(parameter).clone() for name, parameter in model.named_parameters()}
    return {name: digest(each) for name, each in found.items()}


def whole(tensor: Tensor) -> Tensor:
    """Gathered if it is a DTensor, this process's own if not."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()


def digest(tensor: Tensor) -> str:
    """Equal for tensors that are equal to the last bit."""
    assert bool(tensor.isfinite().all())
    return sha256(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()).hexdigest()


def main(out: Path) -> None:
    """Runs everything; `out` gets, by plan, model and type, then by degree, what each process found."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.set_num_threads(1)
    world = dist.get_world_size()
    meshes = {tp: init_device_mesh("cpu", (world // tp, tp), mesh_dim_names=("dp", "tp"))["tp"] for tp in DEGREES}
    reports: dict[str, dict[int, list[Any]]] = {}
    for plan in PLANS:
        for kind in KINDS if plan == "qwen_invariant" else ("qwen2-bias",):
            for name, dtype in DTYPES.items():
                report = reports.setdefault(f"{plan} {kind} {name}", {})
                for tp, mesh in meshes.items():
                    everywhere: list[Any] = [None] * world
                    dist.all_gather_object(everywhere, digests(kind, dtype, mesh, plan))
                    report[tp] = everywhere
    if dist.get_rank() == 0:
        out.write_text(json.dumps(reports))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
