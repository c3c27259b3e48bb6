"""What a measurement of numerics found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from planlang.analysis.cost.reductions import Grade
from planlang.diagnostics.finding import Finding, has_errors

if TYPE_CHECKING:  # importing this imports no torch
    from planlang.runtime.numerics.distance import Distance
    from planlang.runtime.numerics.machine import Machine
    from planlang.runtime.numerics.tokens import Tokens

Reference: TypeAlias = Literal["unsharded", "tp1"]
Kernels: TypeAlias = Literal["default", "fixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The distances from the reference, both computed with the same kernels.

    Attributes:
        kernels: `default`: torch's, as they choose by the sizes of what they get; `fixed`: with shapes that do not
            depend on the number of ranks.
        logits: of the logits, or of the scores of a classifier.
        tokens: of the distributions of the next token; `None` for a classifier, and where a logit is no number.
        gradients: of every parameter's gradient, by its name in the real model.
        modules: of every module's output, in the order in which they end.
        left: operators with sums of products that `fixed` kernels leave as they are, and sizes at which they do not
            hold what they promise.
    """

    kernels: Kernels
    logits: Distance
    tokens: Tokens | None
    gradients: Mapping[str, Distance]
    modules: Mapping[str, Distance]
    left: tuple[str, ...] = ()

    @property
    def forward(self) -> bool:
        """Whether the logits are bitwise equal."""
        return self.logits.equal

    @property
    def backward(self) -> bool:
        """Whether every gradient is bitwise equal."""
        return all(each.equal for each in self.gradients.values())

    @property
    def first(self) -> str | None:
        """The first module whose bits are others."""
        return next((name for name, each in self.modules.items() if not each.equal), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One number of ranks.

    Attributes:
        ranks: how many.
        grade: what `planlang show --reductions` says of the plan there; `None` where it says nothing.
        default: what is seen with torch's kernels: the plan's part and the kernels'.
        fixed: the plan's part alone.
        blocks: whether rules are `invariant`: they sum in blocks, in an order of their own that the model without a
            plan does not have, so their grade is about the plan on one rank.
    """

    ranks: int
    grade: Grade | None
    default: Side
    fixed: Side
    blocks: bool = False

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.default, self.fixed

    @property
    def source(self) -> str:
        """Whose work differing logits are: `none`, `kernels` where fixed shapes make them equal, or `plan`."""
        if self.fixed.forward:
            return "none" if self.default.forward else "kernels"
        return "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """How far a plan moves the numbers of a model.

    Attributes:
        model: what the twin is a twin of.
        twin: what was run: `1 of 36 layers, 18,877,568 parameters`.
        dtype: of weights and activations: `bfloat16`.
        reference: what the plan is held against: the model as it is, or under the plan on one rank.
        batch: sequences.
        length: tokens in each.
        machine: what computed it.
        sizes: the numbers of ranks.
        findings: what the compiler found; what raised; grades that are refuted; alarms.
    """

    model: str
    twin: str
    dtype: str
    reference: Reference
    batch: int
    length: int
    machine: Machine
    sizes: tuple[Measured, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there was something to measure, and nothing failed or was refuted."""
        return bool(self.sizes) and not has_errors(self.findings)
