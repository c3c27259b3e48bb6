"""Every size of the experiment, at the scale that is reported and at one that a test can run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Sizes and settings.

    Attributes:
        hidden: the model's width.
        intermediate: the width of its MLPs.
        layers: decoder layers.
        head_dim: the width of a head; there are eight, and as many for keys and values.
        batch: training pairs in a step.
        train_steps: steps in which a reward model is trained.
        rate: the highest learning rate.
        pairs: evaluation pairs in each set.
        micro_batch: sequences that are scored at once, at every degree.
        compared_steps: steps of training that plans are compared over.
    """

    hidden: int = 256
    intermediate: int = 768
    layers: int = 6
    head_dim: int = 32
    batch: int = 64
    train_steps: int = 150
    rate: float = 1e-3
    pairs: int = 4000
    micro_batch: int = 1000
    compared_steps: int = 50


STANDARD = Recipe()
MINIATURE = Recipe(
    hidden=32,
    intermediate=48,
    layers=2,
    head_dim=8,
    batch=8,
    train_steps=3,
    pairs=40,
    micro_batch=40,  # a rank's activations are whole vectors of 32 numbers at tp 8, see README.md
    compared_steps=6,
)
