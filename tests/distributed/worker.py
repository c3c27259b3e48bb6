"""One of the processes that `test_processes.py` starts: `torchrun ... worker.py OUT.json [NAME ...]`.

For each case a small seeded model is trained for a few steps twice, whole in this process and parallel over all of
them. Rank 0 writes what was found, the largest error over the ranks.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from dataclasses import replace
from datetime import timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from cases import CASES, RANKS, Case, plan_reference
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel, Qwen2Config, Qwen3Config
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

import planlang

STEPS = 3
# Both relative to the largest element of all gradients. A gradient smaller than FLOOR is judged by its error relative
# to FLOOR: rounding in what it is the sum of is no smaller. One smaller than ZERO is 0 but for rounding (queries and
# keys, with one token); AdamW makes a full step of it, so the weights that come of it are noise and not compared.
FLOOR = 1e-4
ZERO = 1e-10
PAD = 0
Report = dict[str, Any]


def norm_in_double(self: nn.Module, hidden_states: Tensor) -> Tensor:
    """RMSNorm without transformers' way over float32, which would hide errors below 1e-7."""
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


modeling_qwen2.Qwen2RMSNorm.forward = norm_in_double
modeling_qwen3.Qwen3RMSNorm.forward = norm_in_double


def build(case: Case) -> PreTrainedModel:
    """The seeded model in float64, every parameter random and of a size that matters."""
    module, config_class = (
        (modeling_qwen2, Qwen2Config) if case.model.startswith("Qwen2") else (modeling_qwen3, Qwen3Config)
    )
    config = config_class(
        vocab_size=case.vocabulary,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=8,
        max_position_embeddings=64,
        tie_word_embeddings=case.tied,
        pad_token_id=PAD,
        num_labels=1,
        use_cache=False,
    )
    model = getattr(module, case.model)(config).double()
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.copy_(1 + noise / 4 if "norm" in name else noise / 4)
    if case.checkpointing:
        model.activation_checkpointing_enable()
    return model.train()


def batches(case: Case, step: int) -> tuple[Tensor, Tensor]:
    """Tokens ``[batch, length]`` of one step, and a label for each token, or a target for each sequence."""
    source = torch.Generator().manual_seed(100 + step)
    tokens = torch.randint(1, case.vocabulary, (case.batch, case.length), generator=source)
    if case.length > 4:
        tokens[0, -2:] = PAD  # the classification head picks the last token before these
    if case.model.endswith("ForCausalLM"):
        return tokens, torch.randint(case.vocabulary, (case.batch, case.length), generator=source)
    return tokens, torch.randn((case.batch, 1), generator=source, dtype=torch.float64)


def whole(tensor: Tensor) -> Tensor:
    """A copy on this process: gathered if it is a DTensor, this rank's own if not."""
    return (tensor.detach().full_tensor() if isinstance(tensor, DTensor) else tensor.detach()).clone()


class Run:
    """Training of one model on this process's part of each batch.

    Attributes:
        logits: of the first step, this process's part.
        loss: of the first step, the mean over this process's part.
        tensors: gradients of the first step and weights after the last, by kind and parameter.
    """

    def __init__(self, model: PreTrainedModel, case: Case, part: slice) -> None:
        self.model, self.case, self.part = model, case, part
        self.tensors: dict[str, Tensor] = {}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=case.clip)
        for step in range(STEPS):
            logits, loss = self._accumulate(step)
            if step == 0:
                self.logits, self.loss = logits, loss
                self.tensors |= {f"gradient {name}": whole(p.grad) for name, p in model.named_parameters()}
            if case.clip:
                norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
                self.tensors[f"norm {step}"] = whole(norm)
            optimizer.step()
            optimizer.zero_grad()
        self.tensors |= {f"weight {name}": whole(p) for name, p in model.named_parameters()}

    def _accumulate(self, step: int) -> tuple[Tensor, Tensor]:
        """Forward and backward over the micro-batches; all logits and the mean loss."""
        tokens, labels = (tensor[self.part] for tensor in batches(self.case, step))
        outputs, losses = [], []
        for ids, wanted in zip(tokens.chunk(self.case.micro), labels.chunk(self.case.micro), strict=True):
            logits = self.model(input_ids=ids).logits
            logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
            if self.case.model.endswith("ForCausalLM"):
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
            else:
                loss = nn.functional.mse_loss(logits, wanted)
            (loss / self.case.micro).backward()
            outputs.append(logits.detach())
            losses.append(loss.detach())
        return torch.cat(outputs), torch.stack(losses).mean()


@cache
def mesh_of(dp: int) -> DeviceMesh:
    """All processes, `dp` times so many; made once, for each brings process groups of its own."""
    return init_device_mesh("cpu", (dp, RANKS // dp), mesh_dim_names=("dp", "tp"))


@cache
def whole_run(case: Case) -> Run:
    """The run of the unsharded model, once for all plans and meshes."""
    return Run(build(case), case, slice(None))


def compare(case: Case) -> Report:
    """Trains the whole and the parallel model and says how far apart they are: the one judge of every case."""
    mesh = mesh_of(case.dp)
    share = case.batch // case.dp
    part = slice(mesh.get_local_rank("dp") * share, (mesh.get_local_rank("dp") + 1) * share)
    right = whole_run(replace(case, plan="", dp=1))
    model = build(case)
    # A mesh of one dimension, or the larger one: the plan acts on the axis `tp` of it.
    planlang.parallelize(model, mesh["tp"] if case.dp == 1 else mesh, plan_reference(case.plan))
    if case.dp > 1:
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
    got = Run(model, case, part)
    if case.dp > 1:
        dist.all_reduce(got.loss, group=mesh.get_group("dp"))
        got.loss /= case.dp
    gradients = {key: value.abs().max() for key, value in right.tensors.items() if key.startswith("gradient ")}
    scale = max(gradients.values())
    noise = [key.removeprefix("gradient ") for key, largest in gradients.items() if largest < ZERO * scale]
    errors = {"logits": error(got.logits, right.logits[part]), "loss": error(got.loss, right.loss)}
    for key, value in got.tensors.items():
        if key not in {f"weight {name}" for name in noise}:
            errors[key] = error(value, right.tensors[key], FLOOR * scale if key in gradients else 0)
    digests = {key: digest(value) for key, value in got.tensors.items()}
    digests[f"logits {mesh.get_local_rank('dp')}"] = digest(got.logits)
    return gathered(errors, digests) | {"noise": noise}


def error(got: Tensor, right: Tensor, floor: Tensor | float = 0) -> float:
    """The largest difference, relative to the largest element of `right` or to `floor` if that is larger."""
    return float((got - right).abs().max() / torch.clamp(right.abs().max(), min=floor))


def digest(tensor: Tensor) -> str:
    """Equal for tensors that are equal to the last bit."""
    return sha256(tensor.numpy().tobytes()).hexdigest()


def gathered(errors: dict[str, float], digests: dict[str, str]) -> Report:
    """The largest of each error over the ranks, and the tensors that are not the same on all that have them."""
    everywhere: list[tuple[dict[str, float], dict[str, str]]] = [({}, {})] * dist.get_world_size()
    dist.all_gather_object(everywhere, (errors, digests))
    found: dict[str, set[str]] = {}
    for _, theirs in everywhere:
        for key, value in theirs.items():
            found.setdefault(key, set()).add(value)
    return {
        "errors": {key: max(theirs[key] for theirs, _ in everywhere) for key in errors},
        "differing": sorted(key for key, values in found.items() if len(values) > 1),
    }


def main(out: Path, names: list[str]) -> None:
    """Runs the cases of `names`, all if empty, up to the first that raises; `out` holds the reports so far."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    torch.set_num_threads(1)
    reports: dict[str, Report] = {}
    for case in CASES:
        if names and case.name not in names:
            continue
        start = time.perf_counter()
        try:
            report = compare(case)
        except Exception:
            report = {"raised": traceback.format_exc()}
        reports[case.name] = report | {"seconds": time.perf_counter() - start}
        if dist.get_rank() == 0:
            out.write_text(json.dumps(reports, indent=1))
        if "raised" in report:
            sys.exit(1)  # the ranks may be out of step: what follows would wait for nothing
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
