"""What differing logits do to the probabilities of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ALARM = 1.05  # NeMo-RL's documentation takes a larger `token_mult_prob_error` for a mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """How far a plan moves the distributions of the next token.

    Attributes:
        kl_mean: KL(reference || plan), the mean over positions, in nats.
        kl_max: the largest.
        argmax_changed: the share of positions whose most probable token is another.
        prob_error: NeMo-RL's `token_mult_prob_error`.
    """

    kl_mean: float
    kl_max: float
    argmax_changed: float
    prob_error: float


def tokens(got: Tensor, right: Tensor, ids: Tensor, mask: Tensor | None = None) -> Tokens:
    """Compares distributions of tokens.

    Args:
        got: logits under a plan, [batch, length, vocabulary].
        right: those of the reference.
        ids: the tokens that are there, [batch, length].
        mask: which of the tokens count, of the same shape; all of them where there is none.
    """
    kl = divergence(got, right)
    if mask is not None:
        kl = kl[mask.bool()]
    changed = (got.argmax(-1) != right.argmax(-1)).double()
    changed = changed if mask is None else changed[mask.bool()]
    return Tokens(
        kl_mean=float(kl.mean()),
        kl_max=float(kl.max()),
        argmax_changed=float(changed.mean()),
        prob_error=token_mult_prob_error(
            next_logprobs(got, ids), next_logprobs(right, ids), None if mask is None else mask[:, 1:]
        ),
    )


def divergence(got: Tensor, right: Tensor) -> Tensor:
    """KL(right || got) of the distributions that logits stand for, over the last dimension, in nats and float64."""
    one, other = got.double().log_softmax(-1), right.double().log_softmax(-1)
    return (other.exp() * (other - one)).sum(-1).clamp(min=0)  # rounding alone can make it negative


def next_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """The logarithm of each next token's probability, in float64.

    Args:
        logits: [batch, length, vocabulary].
        ids: [batch, length].

    Returns:
        [batch, length - 1].
    """
    logprobs = logits[:, :-1].double().log_softmax(-1)
    return logprobs.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def token_mult_prob_error(logprobs: Tensor, reference: Tensor, mask: Tensor | None = None) -> float:
    """The mean over the tokens that count of `exp(|logprobs - reference|)`: 1 where nothing differs.

    Args:
        logprobs: logarithms of the tokens' probabilities, of any shape.
        reference: the same, computed in another way.
        mask: which tokens count; all where there is none. Without any token the result is 1.
    """
    errors = (logprobs - reference).abs().exp()
    weights = torch.ones_like(errors) if mask is None else mask.to(errors.dtype)
    total = float(weights.sum())
    return float((errors * weights).sum()) / total if total else 1.0
