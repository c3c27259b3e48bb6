"""The circumstances in which a plan is run."""

from __future__ import annotations

from dataclasses import dataclass

LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to run a model.

    Attributes:
        name: for a person.
        batch: sequences in all.
        length: tokens in each.
        micro_batches: in how many parts, one after the other, the batch is run.
        masked: whether a padding mask hides something.
        attention: transformers' name for how attention is computed.
        train: whether the model is in training mode; dropout is 0.
        checkpointed: whether activations are computed again in backward.
        step: whether one step of an optimizer is compared too.
    """

    name: str
    batch: int
    length: int = LENGTH
    micro_batches: int = 1
    masked: bool = False
    attention: str = "sdpa"
    train: bool = False
    checkpointed: bool = False
    step: bool = False


def cases(ranks: int) -> tuple[Case, ...]:
    """All ways to run a model on so many ranks; what a plan gets wrong at one size can be right at another."""
    length = ranks * -(-LENGTH // ranks)
    return (
        Case(name="training", batch=ranks + 1, length=length, train=True, step=True),
        Case(name="odd length", batch=ranks, length=7),
        Case(name="length 1", batch=2, length=1),
        Case(name="one sequence", batch=1, length=length),
        Case(name="padding mask", batch=3, length=length, masked=True),
        Case(name="eager attention", batch=3, length=length, attention="eager"),
        Case(name="three micro-batches", batch=6, length=length, micro_batches=3, train=True, step=True),
        Case(name="activation checkpointing", batch=2, length=length, train=True, checkpointed=True),
    )
