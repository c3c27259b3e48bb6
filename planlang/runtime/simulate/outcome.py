"""What a simulation found: one verdict and the numbers behind it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["crash", "forward", "gradient", "right"]
Stage: TypeAlias = Literal["applying", "forward", "backward", "process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """What was raised.

    Attributes:
        stage: while styles were applied, in the forward or in the backward pass; `process` where a process ended.
        exception: its type.
        message: its first line.
        module: the innermost module it happened in; empty where it is not known, as in the backward pass.
        origin: where it was raised: the last file of torch, transformers or this package, and the line.
    """

    stage: Stage
    exception: str
    message: str
    module: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongGradient:
    """A parameter whose gradient is not the unsharded model's.

    Attributes:
        name: the parameter, by the first of its names.
        error: the largest difference on any rank, relative to the true gradient's largest element (see `floor`);
            infinite where there is no gradient or one of another shape.
        spread: the largest difference between two ranks' copies, relative to the same.
        factor: what the true gradient would have to be multiplied by to come closest to rank 0's copy.
        adds_up: whether each rank has a part, as of its own heads, and the sum over the ranks is right.
        note: why it cannot be compared, in words: nan, inf, another shape, none at all.
    """

    name: str
    error: float
    spread: float = 0.0
    factor: float = 0.0
    adds_up: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a plan.

    Attributes:
        verdict: `crash` where something was raised before the logits were known, or in the backward pass after right
            logits; `forward` where the logits are wrong; `gradient` where they are right and a gradient is not; else
            `right`.
        crash: what was raised; also set where wrong logits were followed by an error in the backward pass.
        forward_error: the largest difference of the logits on any rank, relative to their largest element; infinite
            where their shape is wrong.
        note: what is wrong about the output, in words.
        gradients: the wrong ones, largest error first.
        worst: the largest error of any gradient, wrong or not: how far rounding went in a right plan.
        stepped: the largest relative difference of any weight after one step of an optimizer, where that was asked for.
    """

    verdict: Verdict
    crash: Crash | None = None
    forward_error: float = 0.0
    note: str = ""
    gradients: tuple[WrongGradient, ...] = ()
    worst: float = 0.0
    stepped: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """As plain data, without what has its default."""
        return {key: value for key, value in asdict(self).items() if value}
