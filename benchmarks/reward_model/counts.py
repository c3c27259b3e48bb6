"""What changes between two lists of scores, and how likely chance would do it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb

from torch import Tensor

from benchmarks.reward_model.scoring import same_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Scores of pairs against the reference's scores of the same pairs.

    Attributes:
        pairs: how many.
        correct: the preferred sequence has the higher score.
        ties: both have the same.
        changed: the order of the two scores is not the reference's, ties included.
        lost: correct in the reference, and not here.
        gained: the other way round.
        scores: twice the pairs.
        differing: scores with other bits.
    """

    pairs: int
    correct: int
    ties: int
    changed: int
    lost: int
    gained: int
    scores: int
    differing: int


def count(scores: Tensor, reference: Tensor, pairs: Tensor) -> Counts:
    """Compares scores.

    Args:
        scores: of all sequences.
        reference: the same, of the reference.
        pairs: the rows of the preferred and of the other sequence, [pairs, 2].
    """
    order, before = _order(scores, pairs), _order(reference, pairs)
    return Counts(
        pairs=len(pairs),
        correct=int((order > 0).sum()),
        ties=int((order == 0).sum()),
        changed=int((order != before).sum()),
        lost=int(((before > 0) & (order <= 0)).sum()),
        gained=int(((before <= 0) & (order > 0)).sum()),
        scores=pairs.numel(),
        differing=int((~same_bits(scores, reference))[pairs].sum()),
    )


def mcnemar(lost: int, gained: int) -> float:
    """The exact two-sided p of McNemar's test: how likely a fair coin is to fall at least as far from even.

    Args:
        lost: pairs that only the reference had right.
        gained: pairs that the reference had wrong.
    """
    tosses = lost + gained
    tail = sum(comb(tosses, heads) for heads in range(min(lost, gained) + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**tosses)))


def _order(scores: Tensor, pairs: Tensor) -> Tensor:
    """Of each pair 1 where the preferred sequence has the higher score, -1 where the other has, else 0."""
    preferred, other = scores[pairs[:, 0]], scores[pairs[:, 1]]
    return (preferred > other).int() - (preferred < other).int()
