"""Small models on simulated ranks under invariant or plain styles, and whether two runs have the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy, mse_loss
from transformers import (
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
)

from planlang.runtime.invariant import (
    InvariantAttention,
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
)
from planlang.runtime.simulate import local
from planlang.runtime.simulate.run import whole
from planlang.runtime.ties import record, restore

BLOCKS = 8
VOCABULARY = 64
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")
KINDS: Mapping[str, tuple[type[PreTrainedModel], type, bool]] = {
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, False),
    "qwen3-tied": (Qwen3ForCausalLM, Qwen3Config, True),
    "qwen2-bias": (Qwen2ForCausalLM, Qwen2Config, False),
    "qwen3-score": (Qwen3ForSequenceClassification, Qwen3Config, False),
}
Styles = dict[str, ParallelStyle]
Bits = dict[str, list[Tensor]]


@contextmanager
def one_process(*axes: str) -> Iterator[DeviceMesh]:
    """A mesh of one real process, with axes of these names."""
    if dist.is_initialized():
        dist.destroy_process_group()  # that of the simulated ranks, which moves nothing
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        yield init_device_mesh("cpu", (1,) * len(axes), mesh_dim_names=axes)
    finally:
        dist.destroy_process_group()


def build(kind: str, dtype: torch.dtype, layers: int = 2, attention: str = "sdpa") -> PreTrainedModel:
    """The seeded model, every parameter random and of a size that matters.

    A block of the MLP is 20 numbers wide: where a rank's part ends within a vector of the CPU, `silu` in float32 and
    float64 computes its last numbers in another way, unless it runs in blocks.
    """
    model_class, config_class, tied = KINDS[kind]
    config = config_class(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=16,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        pad_token_id=0,
        num_labels=1,
        use_cache=False,
        attn_implementation=attention,
    )
    model = model_class(config)
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=source)
            parameter.copy_(1 + noise / 4 if "norm" in name else noise / 4)
    return model.to(dtype).train()


def batch(kind: str, sequences: int, length: int) -> tuple[Tensor, Tensor]:
    """Tokens [sequences, length], and a label for each token or a target for each sequence."""
    source = torch.Generator().manual_seed(2)
    tokens = torch.randint(1, VOCABULARY, (sequences, length), generator=source)
    if kind.endswith("score"):
        return tokens, torch.randn((sequences, 1), generator=source)
    return tokens, torch.randint(1, VOCABULARY, (sequences, length), generator=source)


def invariant(model: nn.Module, accumulate: torch.dtype | None = None) -> Styles:
    """What `qwen_invariant` says."""
    made: Styles = {}
    options: Any = {"blocks": BLOCKS, "accumulate": accumulate}
    for name, _ in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMNS:
            made[name] = InvariantColwiseParallel(**options)
        elif last in ROWS:
            made[name] = InvariantRowwiseParallel(**options)
        elif last in ("q_norm", "k_norm"):
            made[name] = InvariantSequenceParallel(sequence_dim=2, use_local_output=True, **options)
        elif last == "self_attn":
            made[name] = InvariantAttention(blocks=BLOCKS)
        elif last == "act_fn":
            made[name] = InvariantSequenceParallel(sequence_dim=-1, use_local_output=True, **options)
        elif last == "embed_tokens":
            made[name] = InvariantRowwiseParallel(input_layouts=Replicate(), **options)
        elif last == "lm_head":
            made[name] = InvariantColwiseParallel(output_layouts=Shard(-1), use_local_output=False, **options)
    return made


def plain(model: nn.Module) -> Styles:
    """The same with torch's styles; for models without norms over heads, whose gradients these get wrong."""
    made: Styles = {}
    for name, _ in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMNS:
            made[name] = ColwiseParallel()
        elif last in ROWS:
            made[name] = RowwiseParallel()
        elif last == "embed_tokens":
            made[name] = RowwiseParallel(input_layouts=Replicate())
        elif last == "lm_head":
            made[name] = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    return made


def trained(
    kind: str,
    dtype: torch.dtype,
    tp: int,
    shape: tuple[int, int],
    *,
    styles: Callable[[nn.Module], Styles] = invariant,
    steps: int = 0,
    layers: int = 2,
    prepare: Callable[[nn.Module], object] = lambda model: None,
    autocast: bool = False,
    attention: str = "sdpa",
) -> Bits:
    """Logits, loss and every gradient on each of `tp` simulated ranks, and the weights after `steps` of AdamW."""
    model, made = build(kind, dtype, layers, attention), batch(kind, *shape)
    with local.ranks(tp) as mesh:
        local.spread(model, tp)
        held = record(model)
        for name, style in styles(model).items():
            parallelize_module(model.get_submodule(name), mesh, style)
        restore(held)
        prepare(model)
        given = tuple(local.copies(each, tp) for each in made)
        return {key: local.of_each_rank(each, tp) for key, each in _train(model, given, steps, autocast).items()}


def unsharded(kind: str, dtype: torch.dtype, shape: tuple[int, int]) -> dict[str, Tensor]:
    """The same of the model as it is."""
    return _train(build(kind, dtype), batch(kind, *shape), 0, False)


def _train(model: nn.Module, given: tuple[Tensor, ...], steps: int, autocast: bool) -> dict[str, Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    found: dict[str, Tensor] = {}
    for step in range(max(steps, 1)):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(input_ids=given[0]).logits
        logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
        wide = logits if logits.dtype == torch.float64 else logits.float()
        scores = given[1].dtype.is_floating_point
        loss = (
            mse_loss(wide, given[1].to(wide.dtype)) if scores else cross_entropy(wide.flatten(0, 1), given[1].flatten())
        )
        loss.backward()
        if step == 0:
            found |= {"logits": logits.detach(), "loss": loss.detach()}
            for name, parameter in model.named_parameters():
                assert parameter.grad is not None, name
                found[f"gradient {name}"] = whole(parameter.grad).clone()
        if steps:
            optimizer.step()
    if steps:
        found |= {f"weight {name}": whole(each.detach()).clone() for name, each in model.named_parameters()}
    return found


def differing(one: Bits, other: Bits) -> list[str]:
    """What has other bits on some rank of `other` than on the first of `one`."""
    assert one.keys() == other.keys()
    return [name for name, ranks in other.items() if not all(same(one[name][0], each) for each in ranks)]


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal to the last bit, signs of zeros too; what holds nan or inf is not."""
    if one.shape != other.shape or one.dtype != other.dtype or not bool(one.isfinite().all()):
        return False
    return torch.equal(*(each.contiguous().flatten().view(torch.uint8) for each in (one, other)))
