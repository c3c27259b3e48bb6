"""What was measured, as JSON lines: one object a line, of the kind that its `kind` names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where and with what a command ran.

    Attributes:
        command: the command, without the names of folders.
        cpu: the processor's own words, and which wide instructions it has.
        cores: how many.
        threads: how many torch used.
        isa: what oneDNN was held to, `default` if to nothing.
        torch: the version.
        transformers: the version.
    """

    kind: ClassVar[str] = "machine"
    command: str
    cpu: str
    cores: int
    threads: int
    isa: str
    torch: str
    transformers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One reward model.

    Attributes:
        seed: of its initial weights and its data.
        steps: of training.
        parameters: numbers in it.
        loss: mean over the last steps.
        weights: their digest.
    """

    kind: ClassVar[str] = "trained"
    seed: int
    steps: int
    parameters: int
    loss: float
    weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One model on one set of pairs under one plan, against the reference.

    Attributes:
        plan: its name, or `none` for the unsharded model.
        text: the digest of the plan's text.
        grade: what planlang says of the sums that cross ranks.
        dtype: of weights and scores.
        tp: ranks.
        seed: of the model.
        weights: the digest of its weights.
        set: the pairs.
        against: the reference: `unsharded`, or `mesh of one` where a plan is its own.
        pairs: how many.
        correct: the preferred sequence has the higher score.
        ties: both have the same.
        changed: the order of the two scores is not the reference's, ties included.
        lost: correct in the reference, and not here.
        gained: the other way round.
        scores: how many scores the pairs have.
        differing: scores with other bits than the reference's.
        ranks_equal: whether all ranks have the same bits.
    """

    kind: ClassVar[str] = "scored"
    plan: str
    text: str
    grade: str
    dtype: str
    tp: int
    seed: int
    weights: str
    set: str
    against: str
    pairs: int
    correct: int
    ties: int
    changed: int
    lost: int
    gained: int
    scores: int
    differing: int
    ranks_equal: bool

    @property
    def key(self) -> tuple[object, ...]:
        """What it is a measurement of; a later one of the same takes its place."""
        return self.plan, self.dtype, self.tp, self.seed, self.set

    @property
    def of(self) -> tuple[object, ...]:
        """Which scores it is about."""
        return self.plan, self.text, self.grade, self.dtype, self.tp, self.seed, self.weights

    @property
    def bitwise(self) -> bool:
        """Whether every rank has the reference's bits."""
        return self.differing == 0 and self.ranks_equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The scores of real processes against those of simulated ranks.

    Attributes:
        plan: its name.
        dtype: of weights and scores.
        tp: processes.
        seed: of the model.
        set: the pairs.
        scores: how many were compared, on each rank.
        differing: those with other bits, on the rank that has most of them.
    """

    kind: ClassVar[str] = "processes"
    plan: str
    dtype: str
    tp: int
    seed: int
    set: str
    scores: int
    differing: int

    @property
    def key(self) -> tuple[object, ...]:
        """What it is a measurement of."""
        return self.plan, self.dtype, self.tp, self.seed, self.set


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """Some weights after steps of training under a plan, against one process.

    Attributes:
        plan: its name.
        role: `ours`; `published`, which must fail; `rounding`, one process that adds up in another order.
        tp: ranks.
        grade: what planlang says of the sums that cross ranks.
        dtype: what is computed in; the weights and AdamW are in float32.
        steps: of AdamW.
        seed: of weights and data.
        group: which weights.
        spread: the largest difference of a weight between two ranks.
        distance: from one process's weights, as a share of the way that those went; the farthest rank's, all weights of
            the group together.
        worst: the same of the parameter that is farthest off.
        worst_name: that parameter.
        loss_first: the first loss.
        loss_last: the last loss.
        loss_one_process: the last loss of one process.
        loss_spread: the largest difference of the loss between two ranks, of all steps.
        loss_off: the largest difference from one process's loss, of all steps.
        against: whose bits these should be: `one process`, or `mesh of one` where a plan is its own reference.
        numbers: how many the weights of the group are.
        differing: those with other bits than the reference's, on the rank that has most of them.
        losses_differing: steps whose loss has other bits on any rank.
    """

    kind: ClassVar[str] = "stepped"
    plan: str
    role: str
    grade: str
    dtype: str
    tp: int
    steps: int
    seed: int
    group: str
    spread: float
    distance: float
    worst: float
    worst_name: str
    loss_first: float
    loss_last: float
    loss_one_process: float
    loss_spread: float
    loss_off: float
    against: str
    numbers: int
    differing: int
    losses_differing: int

    @property
    def key(self) -> tuple[object, ...]:
        """What it is a measurement of."""
        return self.plan, self.dtype, self.tp, self.seed, self.group

    @property
    def bitwise(self) -> bool:
        """Whether every rank has the reference's bits, in the weights and in the loss of every step."""
        return self.differing == 0 and self.losses_differing == 0


Result: TypeAlias = Machine | Trained | Scored | Processes | Stepped
R = TypeVar("R", Machine, Trained, Scored, Processes, Stepped)
_KINDS: dict[str, type[Any]] = {each.kind: each for each in (Machine, Trained, Scored, Processes, Stepped)}


def append(path: Path, results: Iterable[Result]) -> None:
    """Adds lines to a file, in one write."""
    lines = [json.dumps({"kind": each.kind, **asdict(each)}, ensure_ascii=False) + "\n" for each in results]
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))


def read(path: Path) -> list[Result]:
    """All results of a file; none, if there is no file.

    Raises:
        ValueError: a line is of no kind that is known.
    """
    if not path.exists():
        return []
    found: list[Result] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        content: dict[str, Any] = json.loads(line)
        kind = _KINDS.get(content.pop("kind", ""))
        if kind is None:
            raise ValueError(f"{path}:{number} is of no known kind")
        found.append(kind(**content))
    return found


def latest(results: Sequence[Result], kind: type[R]) -> list[R]:
    """The results of a kind, of several measurements of the same thing the last."""
    found: dict[object, R] = {}
    for each in results:
        if isinstance(each, kind):
            found[getattr(each, "key", each)] = each
    return list(found.values())
