"""Models of one layer at published widths, and the styles that are put side by side on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from planlang.runtime.invariant import (
    InvariantAttention,
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
)

VOCABULARY = 4096
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
Styles = dict[str, ParallelStyle]


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


def products(model: nn.Module, blocks: int) -> Styles:
    """The same without the rules for attention and for the activation."""
    return {
        name: style for name, style in invariant(model, blocks).items() if not name.endswith(("self_attn", "act_fn"))
    }


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
