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
    """All ways to run a model on so many ranks; what a plan gets wrong at one size can be right at another.

    Those that ask for no size of their own share one: what torch finds out about an operator it keeps by its sizes.
    """
    batch, length = ranks + 1, ranks * -(-LENGTH // ranks)
    return (
        Case(name="training", batch=batch, length=length, train=True, step=True),
        Case(name="odd length", batch=ranks, length=7),
        Case(name="length 1", batch=2, length=1),
        Case(name="one sequence", batch=1, length=length),
        Case(name="padding mask", batch=batch, length=length, masked=True),
        Case(name="eager attention", batch=batch, length=length, attention="eager"),
        Case(name="three micro-batches", batch=3 * batch, length=length, micro_batches=3, train=True, step=True),
        Case(name="activation checkpointing", batch=batch, length=length, train=True, checkpointed=True),
    )


def alike(all_cases: tuple[Case, ...]) -> tuple[tuple[Case, ...], ...]:
    """The cases in groups of those whose tensors have the same sizes; the largest group first."""
    groups: dict[object, list[Case]] = {}
    for case in all_cases:
        groups.setdefault((case.batch // case.micro_batches, case.length), []).append(case)
    return tuple(tuple(group) for group in sorted(groups.values(), key=len, reverse=True))
