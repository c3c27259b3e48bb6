"""Applies a plan to a small Qwen3 on four CPU processes and compares it with one process: logits and every gradient.

torchrun --standalone --nproc-per-node 4 docs/examples/four_processes.py plans/qwen_stable.plan
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from transformers import Qwen3Config, Qwen3ForCausalLM

import planlang


def small_qwen3() -> Qwen3ForCausalLM:
    """Two layers, 8 heads and 4 key-value heads, float64; the same weights on every rank."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=16,
        tie_word_embeddings=False,
    )
    model = Qwen3ForCausalLM(config).double()
    for parameter in model.parameters():  # norm weights too: ones would hide mistakes
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def run(model: Qwen3ForCausalLM, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """The logits and every gradient of one step, whole."""
    logits = model(tokens).logits
    whole = logits.full_tensor() if isinstance(logits, DTensor) else logits
    torch.nn.functional.cross_entropy(whole[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    found = {"logits": whole.detach()}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        found[name] = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
    return found


def main() -> None:
    """Compares, prints the largest differences on rank 0, and fails on any rank that differs."""
    dist.init_process_group("gloo")
    tokens = torch.randint(0, 256, (3, 17), generator=torch.Generator().manual_seed(1))
    alone = run(small_qwen3(), tokens)

    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    together = run(planlang.parallelize(small_qwen3(), mesh, sys.argv[1]), tokens)

    errors = {name: float((together[name] - alone[name]).abs().max() / alone[name].abs().max()) for name in alone}
    if dist.get_rank() == 0:
        print(f"{sys.argv[1]} on {dist.get_world_size()} processes against one, largest relative difference:")
        for name in sorted(errors, key=errors.__getitem__, reverse=True)[:5]:
            print(f"  {errors[name]:.1e}  {name}")
        print(f"  logits and {len(errors) - 1} gradients compared")
    dist.barrier()
    dist.destroy_process_group()
    if max(errors.values()) > 1e-10:
        sys.exit(f"the parallel model is not the same: {max(errors, key=errors.__getitem__)}")


if __name__ == "__main__":
    main()
