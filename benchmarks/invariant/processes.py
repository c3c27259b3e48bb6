"""Whether the bits on real gloo processes are those of one process, at published widths.

As a program it is one of those processes: `torchrun -m benchmarks.invariant.processes MODEL TYPE`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

import planlang
from benchmarks.invariant.models import DTYPES, MODELS, VOCABULARY

BATCHES = ((3, 17), (1, 256))  # one of each step, in turn
STEPS = 4
HEAD = ("model", "type", "processes", "same bits as one", f"of (logits, loss, gradients and weights of {STEPS} steps)")


def rows(name: str, dtype: str) -> Iterator[str]:
    """A row of the table for each number of processes."""
    one = _run(name, dtype, 1)
    for count in (2, 4):
        found = _run(name, dtype, count)
        equal = sum(a == b != "differs" for a, b in zip(one, found, strict=True))
        yield f"| {name} | {dtype} | {count} | {equal} | {len(one)} |"


def _run(name: str, dtype: str, count: int) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    command += ["-m", "benchmarks.invariant.processes", name, dtype]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def train(name: str, dtype: str) -> Iterator[Tensor]:
    """What a training leaves, whole: logits, loss and gradients of each step, and the weights behind the last."""
    widths = MODELS[name]
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model: Any = widths.build(DTYPES[dtype])
    planlang.parallelize(model, mesh, planlang.load("qwen_invariant", blocks=widths.blocks))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    source = torch.Generator().manual_seed(2)
    for step in range(STEPS):
        tokens = torch.randint(1, VOCABULARY, BATCHES[step % len(BATCHES)], generator=source)
        logits = _whole(model(input_ids=tokens).logits)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.roll(1, -1).flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        yield from (logits, loss)
        yield from (_whole(parameter.grad) for parameter in model.parameters())
        optimizer.step()
    yield from (_whole(parameter) for parameter in model.parameters())


def _whole(tensor: Any) -> Tensor:
    whole: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole


def main() -> None:
    """Prints a digest of each tensor, or `differs` where the ranks do not agree."""
    dist.init_process_group("gloo")
    own = [
        sha256(bytes(each.detach().contiguous().view(-1).view(torch.uint8).numpy())) for each in train(*sys.argv[1:])
    ]
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, [each.hexdigest() for each in own])
    if dist.get_rank() == 0:
        print(*(ranks[0] if len(set(ranks)) == 1 else "differs" for ranks in zip(*found, strict=True)))
    dist.barrier()  # gloo may fail where one process ends while another still listens
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
