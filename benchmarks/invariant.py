"""Bits and time of the invariant styles at the widths of published models, one layer, on the CPU.

    python -m benchmarks.invariant [--models NAME ...] [--dtypes NAME ...] [--steps N] [--only bits|time]

**Bits**: logits, loss, every gradient and the weights after `--steps` steps of AdamW, on simulated ranks, against one
rank. The vocabulary is cut to 4096, the rest is as published. The last column does the same with torch's own styles.

**Time**: one layer, forward and backward, in turn with torch's own styles. At tp 4 it is one rank's own work: the
processes that it would talk to are not there (`fake` process group), so nothing of it is the wire or waiting.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from benchmarks.timing import Pairs, in_turn
from planlang.runtime.invariant import (
    InvariantAttention,
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
)
from planlang.runtime.simulate import local
from planlang.runtime.ties import record, restore

VOCABULARY = 4096
SHAPES = ((1, 1), (3, 1), (1, 17), (3, 17), (1, 256), (3, 256))
STEPPED = (3, 17)
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
TOKENS = (1, 512)
Styles = dict[str, ParallelStyle]
Digests = dict[str, str]


@dataclass(frozen=True, slots=True)
class Widths:
    """A published model's sizes, and the blocks that its key and value heads allow."""

    qwen: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    tied: bool
    blocks: int = 8

    @property
    def degrees(self) -> tuple[int, ...]:
        """The numbers of ranks beside one."""
        return tuple(tp for tp in (2, 4, 8) if tp <= self.blocks)

    def build(self, dtype: torch.dtype) -> nn.Module:
        """The seeded model of one layer, with norms that are not all ones."""
        config_class: Any = Qwen3Config if self.qwen == 3 else Qwen2Config
        model_class: Any = Qwen3ForCausalLM if self.qwen == 3 else Qwen2ForCausalLM
        sizes = {"head_dim": 128} if self.qwen == 3 else {}
        config = config_class(
            vocab_size=VOCABULARY,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=1,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            tie_word_embeddings=self.tied,
            use_cache=False,
            **sizes,
        )
        torch.manual_seed(0)
        default = torch.get_default_dtype()
        torch.set_default_dtype(dtype)  # large weights are made once, in their type
        try:
            model: nn.Module = model_class(config)
        finally:
            torch.set_default_dtype(default)
        source = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_((0.3 * torch.randn(parameter.shape, generator=source)).to(dtype))
        return model.to(dtype)


MODELS = {
    "Qwen3-0.6B": Widths(3, 1024, 3072, 16, 8, True),
    "Qwen3-1.7B": Widths(3, 2048, 6144, 16, 8, True),
    "Qwen2.5-7B": Widths(2, 3584, 18944, 28, 4, False, blocks=4),
    "Qwen3-8B": Widths(3, 4096, 12288, 32, 8, False),
}


def invariant(model: nn.Module, blocks: int) -> Styles:
    """What `qwen_invariant` says, for the modules that are there."""
    styles: dict[str, Callable[[], ParallelStyle]] = {
        **dict.fromkeys(("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), lambda: _columns(blocks)),
        **dict.fromkeys(("o_proj", "down_proj"), lambda: InvariantRowwiseParallel(blocks=blocks)),
        **dict.fromkeys(
            ("q_norm", "k_norm"),
            lambda: InvariantSequenceParallel(blocks=blocks, sequence_dim=2, use_local_output=True),
        ),
        "self_attn": lambda: InvariantAttention(blocks=blocks),
        "act_fn": lambda: InvariantSequenceParallel(blocks=blocks, sequence_dim=-1, use_local_output=True),
        "embed_tokens": lambda: InvariantRowwiseParallel(blocks=blocks, input_layouts=Replicate()),
        "lm_head": lambda: InvariantColwiseParallel(blocks=blocks, use_local_output=False),
    }
    return _by_name(model, styles)


def _columns(blocks: int) -> ParallelStyle:
    return InvariantColwiseParallel(blocks=blocks)


def plain(model: nn.Module, _: int = 0) -> Styles:
    """The same with torch's own styles; norms over heads are whole on every rank, as `SequenceParallel` has them."""
    styles: dict[str, Callable[[], ParallelStyle]] = {
        **dict.fromkeys(("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), ColwiseParallel),
        **dict.fromkeys(("o_proj", "down_proj"), RowwiseParallel),
        **dict.fromkeys(("q_norm", "k_norm"), lambda: SequenceParallel(sequence_dim=2, use_local_output=True)),
        "embed_tokens": lambda: RowwiseParallel(input_layouts=Replicate()),
        "lm_head": lambda: ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    return _by_name(model, styles)


def _by_name(model: nn.Module, styles: dict[str, Callable[[], ParallelStyle]]) -> Styles:
    named = ((name, name.rpartition(".")[2]) for name, _ in model.named_modules())
    return {name: styles[last]() for name, last in named if last in styles}


def bits(
    widths: Widths,
    dtype: torch.dtype,
    tp: int,
    shape: tuple[int, int],
    steps: int,
    styles: Callable[[nn.Module, int], Styles] = invariant,
) -> Digests:
    """Digests of all that a training leaves on `tp` simulated ranks: equal if the bits are, on every rank."""
    gc.collect()  # the model before: its modules and their forwards hold each other
    model = widths.build(dtype)
    tokens = torch.randint(1, VOCABULARY, shape, generator=torch.Generator().manual_seed(2))
    labels = tokens.roll(1, -1)
    with local.ranks(tp) as mesh:
        _apply(model, mesh, styles(model, widths.blocks), tp)
        given, wanted = local.copies(tokens, tp), local.copies(labels, tp)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False) if steps else None
        found: Digests = {}
        for step in range(max(steps, 1)):
            model.zero_grad()
            logits = model(input_ids=given).logits
            logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
            loss.backward()  # type: ignore[no-untyped-call]
            if step == 0:
                found |= {"logits": digest(logits, tp), "loss": digest(loss, tp)}
                found |= {f"gradient {name}": digest(p.grad, tp) for name, p in model.named_parameters()}
            if optimizer is not None:
                optimizer.step()
        if steps:
            found |= {f"weight {name}": digest(p, tp) for name, p in model.named_parameters()}
    return found


def _apply(model: nn.Module, mesh: DeviceMesh, styles: Styles, tp: int) -> None:
    """Applies styles module by module, so that not every rank has a copy of the whole model at once."""
    held = record(model)
    for name, module in list(model.named_modules()):
        if name not in styles and not list(module.children()):
            local.spread(module, tp)
    for name, style in styles.items():
        module = model.get_submodule(name)
        if not list(module.children()):  # those inside are spread in their turn
            local.spread(module, tp)
        parallelize_module(module, mesh, style)
    restore(held)


def digest(tensor: Tensor | None, tp: int) -> str:
    """Of the whole tensor, put together from the ranks' parts; `differs` where ranks with the whole do not agree."""
    assert tensor is not None
    tensor = tensor.detach()
    dim = None
    if isinstance(tensor, DTensor):
        (lies,) = tensor.placements
        if not isinstance(lies, Shard):
            tensor = tensor.redistribute(placements=[Replicate()])
        else:
            dim = lies.dim
        tensor = tensor.to_local()
    ranks = local.of_each_rank(tensor, tp)
    wholes = ranks if dim is None else [torch.cat(ranks, dim)]
    found = {_sha(each) for each in wholes}
    return found.pop() if len(found) == 1 else "differs"


def _sha(tensor: Tensor) -> str:
    if not bool(tensor.isfinite().all()):
        return "differs"
    return sha256(tensor.contiguous().flatten().view(torch.uint8).numpy().data).hexdigest()


def equal(one: Digests, other: Digests) -> int:
    """How many tensors are bitwise equal."""
    assert one.keys() == other.keys()
    return sum(one[name] == other[name] != "differs" for name in one)


def bits_rows(name: str, dtype: str, steps: int) -> Iterator[str]:
    """A row of the table for each shape of the batch."""
    widths = MODELS[name]
    for shape in SHAPES:
        start = time.perf_counter()
        count = steps if shape == STEPPED else 0
        one = bits(widths, DTYPES[dtype], 1, shape, count)
        cells = [
            f"{equal(one, bits(widths, DTYPES[dtype], tp, shape, count))}" if tp in widths.degrees else "-"
            for tp in (2, 4, 8)
        ]
        right = bits(widths, DTYPES[dtype], 1, shape, 0, plain)
        other = equal(right, bits(widths, DTYPES[dtype], 2, shape, 0, plain))
        what = f"{shape[0]} x {shape[1]}" + (f", {count} steps" if count else "")
        seconds = time.perf_counter() - start
        counted = " | ".join((str(len(one)), *cells, f"{other} of {len(right)}"))
        yield f"| {name} | {dtype} | {what} | {counted} | {seconds:.0f} s |"


@contextmanager
def one_of(tp: int) -> Iterator[DeviceMesh]:
    """The mesh as the first of `tp` ranks sees it; the others are not there."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=tp, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (tp,), mesh_dim_names=("tp",))
    finally:
        dist.destroy_process_group()


def timed(widths: Widths, dtype: torch.dtype, tp: int, runs: int) -> Pairs:
    """Seconds of one layer, forward and backward: the invariant styles, and torch's own."""
    with one_of(tp) as mesh:
        passes: list[Callable[[], None]] = []
        for styles in (invariant, plain):
            model: Any = widths.build(dtype)
            layer = model.model.layers[0]
            for name, style in styles(layer, widths.blocks).items():
                parallelize_module(layer.get_submodule(name), mesh, style)
            rotary = model.model.rotary_emb
            del model
            passes.append(_pass(layer, rotary, widths.hidden, dtype))
        ours, theirs = passes
        return in_turn(ours, theirs, runs)


def _pass(layer: nn.Module, rotary: nn.Module, hidden: int, dtype: torch.dtype) -> Callable[[], None]:
    x = torch.randn((*TOKENS, hidden)).to(dtype).requires_grad_()
    angles = rotary(x.detach(), torch.arange(TOKENS[1]).unsqueeze(0))

    def run() -> None:
        y = layer(x, position_embeddings=angles)
        y = y[0] if isinstance(y, tuple) else y
        y.backward(torch.ones_like(y))
        layer.zero_grad()

    return run


def time_rows(name: str, dtype: str, runs: int = 7) -> Iterator[str]:
    """A row of the table for each number of ranks."""
    for tp in (1, 4):
        pairs = timed(MODELS[name], DTYPES[dtype], tp, runs)
        ours, theirs = statistics.median(pairs.ours) * 1e3, statistics.median(pairs.theirs) * 1e3
        yield f"| {name} | {dtype} | {tp} | {ours:.0f} ms | {theirs:.0f} ms | {pairs.ratio:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Bits and time of the invariant styles, on the CPU.")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--steps", type=int, default=20, help="steps of AdamW, at batch 3 and length 17")
    parser.add_argument("--only", choices=("bits", "time"))
    asked = parser.parse_args()
    wanted = [(name, dtype) for name in asked.models for dtype in asked.dtypes]
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"torch {torch.__version__}, {capability}, {torch.get_num_threads()} threads\n", flush=True)
    if asked.only != "time":
        print("| model | type | batch x length | tensors | equal at tp 2 | 4 | 8 | torch's styles, tp 2 | took |")
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for name, dtype in wanted:
            for row in bits_rows(name, dtype, asked.steps):
                print(row, flush=True)
        print()
    if asked.only != "bits":
        print(f"| model | type | tp | invariant | torch's styles | ratio | ({TOKENS[0]} x {TOKENS[1]} tokens)")
        print("|---|---|---|---|---|---|", flush=True)
        for name, dtype in wanted:
            for row in time_rows(name, dtype):
                print(row, flush=True)


if __name__ == "__main__":
    main()
