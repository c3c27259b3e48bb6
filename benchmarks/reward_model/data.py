"""Pairs of token sequences, of which a hidden rule prefers one: for training with noise, for evaluation without.

The rule adds a number for each token and one for each pair of neighbours. All is in whole numbers, so that every
machine makes the same pairs. The evaluation sets are frozen: `DIGESTS` was written before any model was scored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

VOCABULARY = 64  # token 0 pads, and stands in no sequence
LENGTH = 6
SETS = ("random", "one-token", "near-tie")
DIGESTS = {  # by the number of pairs in a set
    4000: {
        "random": "fe299c5526c9f5dee9541c4f55947cf4088649355f203022ff4fca43b3728077",
        "one-token": "29d3cae92b0f0e6f02389e33ad8fedb7c934240cad9e4b81a47a256b893e37a8",
        "near-tie": "1e52ff6ee1ca539ebeabecbcd1ed9354402b541e95abc424b6707df6efc89b9a",
    },
    40: {
        "random": "6f97f66128562c191d08e85d6a5bc49e502f421838d8dafa59686a04bd4e7776",
        "one-token": "6d908fca7496d07199737998eee8ff4d4ae9b3771c4d030d38de596d2ba73527",
        "near-tie": "ab6fcbf671256825c5e4c0e3621f6599e21f0e89ddbbed0c5010c451c2d50743",
    },
}
_RULE_SEED, _SETS_SEED, _TRAIN_SEED = 1, 2, 1000
_UNIT = 1_000_000_000  # so large that no two scores are equal
_NOISE = 3 * _UNIT


class NotFrozenError(RuntimeError):
    """The evaluation sets made here are not those that were frozen."""


@dataclass(frozen=True, slots=True)
class Sets:
    """The evaluation sets, which share sequences so that each sequence is scored once.

    Attributes:
        sequences: tokens, [sequences, LENGTH].
        pairs: for each set the rows of the preferred and of the other sequence, [pairs, 2].
    """

    sequences: Tensor
    pairs: Mapping[str, Tensor]

    def digest(self, name: str) -> str:
        """The sha256 of a set's tokens, one byte each, pair after pair, the preferred sequence first."""
        tokens = self.sequences[self.pairs[name]].to(torch.uint8)
        return hashlib.sha256(tokens.numpy().tobytes()).hexdigest()


def rule(tokens: Tensor) -> Tensor:
    """The hidden score of sequences: [..., LENGTH] to [...], whole numbers."""
    source = torch.Generator().manual_seed(_RULE_SEED)
    values = torch.randint(-2 * _UNIT, 2 * _UNIT + 1, (VOCABULARY,), generator=source)
    neighbours = torch.randint(-2 * _UNIT, 2 * _UNIT + 1, (VOCABULARY, VOCABULARY), generator=source)
    score: Tensor = values[tokens].sum(-1) + neighbours[tokens[..., :-1], tokens[..., 1:]].sum(-1)
    return score


def evaluation_sets(pairs: int) -> Sets:
    """The three sets.

    - `random`: two sequences drawn at random;
    - `one-token`: the first sequence of each of those, and the same with one token replaced;
    - `near-tie`: all sequences of `random` in order of the rule's score, two neighbours at a time.

    Args:
        pairs: in each set.
    """
    source = torch.Generator().manual_seed(_SETS_SEED)
    drawn = torch.randint(1, VOCABULARY, (2 * pairs, LENGTH), generator=source)
    replaced = drawn[::2].clone()
    where = torch.randint(LENGTH, (pairs, 1), generator=source)
    shift = torch.randint(1, VOCABULARY - 1, (pairs, 1), generator=source)
    old = replaced.gather(1, where)
    replaced.scatter_(1, where, (old - 1 + shift) % (VOCABULARY - 1) + 1)
    sequences = torch.cat([drawn, replaced])
    scores = rule(sequences)
    rows = torch.arange(2 * pairs)
    drafts = {
        "random": rows.view(pairs, 2),
        "one-token": torch.stack([rows[::2], rows[:pairs] + 2 * pairs], dim=1),
        "near-tie": scores[: 2 * pairs].argsort(stable=True).view(pairs, 2),
    }
    return Sets(sequences, {name: _preferred_first(draft, scores) for name, draft in drafts.items()})


def frozen_sets(pairs: int) -> Sets:
    """The evaluation sets, held against `DIGESTS`.

    Raises:
        NotFrozenError: they are others.
        KeyError: no sets of this size were frozen.
    """
    sets = evaluation_sets(pairs)
    for name, digest in DIGESTS[pairs].items():
        if sets.digest(name) != digest:
            raise NotFrozenError(f"the set {name!r} has the digest {sets.digest(name)}, not {digest}")
    return sets


def training_pairs(seed: int, pairs: int, step: int) -> Tensor:
    """The sequences of one step of training: the preferred ones, then the others, [2 * pairs, LENGTH].

    Which is preferred is decided by the rule and some noise.
    """
    source = torch.Generator().manual_seed(_TRAIN_SEED * (seed + 1) + step)
    tokens = torch.randint(1, VOCABULARY, (2, pairs, LENGTH), generator=source)
    noise = torch.randint(-_NOISE, _NOISE + 1, (pairs,), generator=source)
    scores = rule(tokens)
    first = (scores[0] - scores[1] + noise > 0)[:, None]
    return torch.cat([torch.where(first, tokens[0], tokens[1]), torch.where(first, tokens[1], tokens[0])])


def _preferred_first(pairs: Tensor, scores: Tensor) -> Tensor:
    """The pairs, each with the sequence of the higher score first.

    Raises:
        ValueError: two scores are equal, so that none is preferred.
    """
    first, second = scores[pairs[:, 0]], scores[pairs[:, 1]]
    if bool((first == second).any()):
        raise ValueError("the rule prefers neither sequence of a pair")
    return torch.where((first > second)[:, None], pairs, pairs.flip(1))
