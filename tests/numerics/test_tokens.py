"""What logits do to tokens, on distributions worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from planlang.runtime.numerics.tokens import divergence, next_logprobs, token_mult_prob_error, tokens


def logits(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def test_divergence_of_known_distributions() -> None:
    right, got = logits(0.5, 0.5), logits(0.25, 0.75)
    assert divergence(got, right).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert divergence(right, got).item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    assert divergence(right + 3, right).item() == pytest.approx(0, abs=1e-15)  # a shift is no change


def test_the_mean_factor_of_probabilities() -> None:
    reference = torch.tensor([math.log(0.5), math.log(0.2), math.log(0.1)])
    twice = torch.tensor([math.log(0.5), math.log(0.4), math.log(0.1)])
    half = torch.tensor([math.log(0.5), math.log(0.1), math.log(0.1)])
    assert token_mult_prob_error(twice, reference) == pytest.approx((1 + 2 + 1) / 3)
    assert token_mult_prob_error(half, reference) == pytest.approx((1 + 2 + 1) / 3)  # too small weighs as too large
    assert token_mult_prob_error(twice, reference, torch.tensor([1, 1, 0])) == pytest.approx(1.5)
    assert token_mult_prob_error(twice, reference, torch.tensor([1, 0, 1])) == 1
    assert token_mult_prob_error(twice, reference, torch.zeros(3)) == 1


def test_the_next_token_counts() -> None:
    given = torch.stack([logits(0.1, 0.2, 0.7), logits(0.3, 0.3, 0.4), logits(0.6, 0.2, 0.2)]).unsqueeze(0)
    found = next_logprobs(given, torch.tensor([[2, 1, 0]]))
    assert found.exp().tolist() == [[pytest.approx(0.2), pytest.approx(0.3)]]


def test_all_figures() -> None:
    right = torch.stack([logits(0.1, 0.9), logits(0.5, 0.5), logits(0.7, 0.3)]).unsqueeze(0)
    got = torch.stack([logits(0.8, 0.2), logits(0.5, 0.5), logits(0.7, 0.3)]).unsqueeze(0)
    ids = torch.tensor([[0, 0, 0]])
    kl = 0.1 * math.log(1 / 8) + 0.9 * math.log(4.5)
    found = tokens(got, right, ids)
    assert found.argmax_changed == pytest.approx(1 / 3)
    assert found.kl_mean == pytest.approx(kl / 3)
    assert found.kl_max == pytest.approx(kl)
    assert found.prob_error == pytest.approx((8 + 1) / 2)
    hidden = tokens(got, right, ids, torch.tensor([[0, 1, 1]]))
    assert hidden.kl_max == pytest.approx(0, abs=1e-15)
    assert hidden.argmax_changed == 0
    same = tokens(right, right, ids)
    assert (same.kl_max, same.argmax_changed, same.prob_error) == (0, 0, 1)
