"""Trains a small Qwen3 and prints a digest of its weights, which is the same on any number of processes.

torchrun --standalone --nproc-per-node 1 docs/examples/same_bits.py qwen_invariant
torchrun --standalone --nproc-per-node 4 docs/examples/same_bits.py qwen_invariant
"""

import sys
from hashlib import sha256

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from transformers import Qwen3Config, Qwen3ForCausalLM

import planlang


def small_qwen3() -> Qwen3ForCausalLM:
    """Two layers, 8 heads and 8 key-value heads, so that 8 blocks divide them; the same weights on every rank."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=8,
        head_dim=16,
        tie_word_embeddings=False,
    )
    return Qwen3ForCausalLM(config)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Gathered where it is a DTensor, and as it is where it is not."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def main() -> None:
    """Three steps of AdamW, with gradients clipped; rank 0 prints."""
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model = planlang.parallelize(small_qwen3(), mesh, sys.argv[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    source = torch.Generator().manual_seed(1)  # every rank of a group trains on the same tokens
    for _ in range(3):
        tokens = torch.randint(0, 256, (3, 17), generator=source)
        logits = whole(model(tokens).logits)  # a loss on gathered logits has the same bits
        torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        norm = planlang.clip_grad_norm_(model, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    digest = sha256()
    for _, parameter in sorted(model.named_parameters()):
        digest.update(whole(parameter.detach()).contiguous().numpy().tobytes())
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} processes: norm {float(norm)!r}, weights {digest.hexdigest()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
