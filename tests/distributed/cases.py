"""The runs that the processes make: a model, a plan, a mesh and a batch each. Importing this costs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

QWEN2 = "Qwen2ForCausalLM"
QWEN3 = "Qwen3ForCausalLM"
QWEN2_SCORE = "Qwen2ForSequenceClassification"
QWEN3_SCORE = "Qwen3ForSequenceClassification"
RANKS = 4
BUNDLED = ("qwen", "qwen_stable", "qwen_sequence")
_FILES = Path(__file__).with_name("plans")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run.

    Attributes:
        plan: a bundled plan, or a file in `plans`.
        model: a transformers class.
        tied: whether the head's weight is the embedding's.
        vocabulary: rows of the embedding.
        batch: sequences in a step, all micro-batches and data-parallel ranks together.
        length: tokens in a sequence.
        micro: micro-batches in a step; gradients accumulate over them.
        dp: data-parallel ranks, with `fully_shard`; the rest are tensor-parallel.
        checkpointing: whether decoder layers are computed again in the backward pass.
        clip: whether gradients are clipped and the optimizer is a `foreach` one: all parameters must be DTensors.
    """

    plan: str
    model: str = QWEN3
    tied: bool = False
    vocabulary: int = 64
    batch: int = 2
    length: int = 8
    micro: int = 1
    dp: int = 1
    checkpointing: bool = False
    clip: bool = False

    @property
    def name(self) -> str:
        """What it is called in reports."""
        parts = [self.plan, self.model, f"{self.batch}x{self.length}"]
        parts += ["tied"] * self.tied + ["checkpointing"] * self.checkpointing + ["clip"] * self.clip
        parts += [f"vocabulary{self.vocabulary}"] * (self.vocabulary != 64)
        parts += [f"micro{self.micro}"] * (self.micro > 1) + [f"dp{self.dp}"] * (self.dp > 1)
        return "-".join(parts)


def plan_reference(name: str) -> str:
    """What `planlang.load` takes for the plan of a case: the name of a bundled one, else a path."""
    return name if name in BUNDLED else str(_FILES / f"{name}.plan")


RIGHT_PLANS = (*BUNDLED, "replicate")
MODELS: tuple[tuple[str, bool], ...] = (
    (QWEN2, False),
    (QWEN2, True),
    (QWEN3, False),
    (QWEN3, True),
    (QWEN2_SCORE, False),
    (QWEN3_SCORE, False),
)
RIGHT = (
    # Every plan on every model, on one tensor-parallel group and with data parallelism around it.
    *(Case(plan=plan, model=model, tied=tied) for plan, (model, tied) in product(RIGHT_PLANS, MODELS)),
    *(Case(plan=plan, model=model, tied=tied, dp=2) for plan, (model, tied) in product(RIGHT_PLANS, MODELS)),
    # One token, fewer tokens than ranks, an odd number of them; one sequence.
    *(
        Case(plan=plan, model=model, batch=batch, length=length)
        for plan, model, (batch, length) in product(
            RIGHT_PLANS, (QWEN2, QWEN3, QWEN2_SCORE, QWEN3_SCORE), ((1, 1), (1, 3), (2, 1), (3, 13))
        )
    ),
    *(Case(plan=plan, vocabulary=66, tied=tied) for plan, tied in product(RIGHT_PLANS, (False, True))),
    *(Case(plan=plan, batch=6, micro=3) for plan in RIGHT_PLANS),
    # A tensor-parallel group of one: the plan changes nothing, also not with odd sizes.
    *(Case(plan=plan, model=model, batch=4, dp=RANKS) for plan, model in product(RIGHT_PLANS, (QWEN3, QWEN2_SCORE))),
    # Clipping and `foreach` optimizers, where no parameter is left plain.
    *(Case(plan=plan, dp=dp, clip=True) for plan, dp in product(("qwen_sequence", "replicate"), (1, 2))),
    *(Case(plan="replicate", model=QWEN3_SCORE, dp=dp, clip=True) for dp in (1, 2)),
    *(Case(plan=plan, batch=12, micro=3, dp=2, checkpointing=True) for plan in RIGHT_PLANS),
)
WRONG = (Case(plan="seed"), Case(plan="seed", dp=2))
CASES = RIGHT + WRONG
