"""One forward and backward pass: both walks together, and all that they found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from planlang.analysis.flow import backward
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.forward import Frame
from planlang.analysis.flow.gradients import Backward, Wrong
from planlang.analysis.flow.setup import Setup
from planlang.analysis.flow.state import REPLICATE, Gradient, Tensor, for_gradient
from planlang.analysis.flow.tape import Called, Parameter
from planlang.layout import Replicate, Shard

Contract = Literal["torch", "hf", "nemo-rl"]
CONTRACTS: tuple[Contract, ...] = ("torch", "hf", "nemo-rl")


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass found.

    Attributes:
        frame: the main list of events, walked forward.
        back: the same, walked backward.
        conflicts: what goes wrong in the forward pass, with the layers in which it does so.
        wrong: gradients that are wrong, likewise.
        unknown: parameters whose gradient is not known.
        trusted: whether a gradient that is not known was taken for what a rule declares.
    """

    frame: Frame
    back: Backward
    conflicts: tuple[tuple[Conflict, tuple[str, ...]], ...]
    wrong: tuple[tuple[Wrong, tuple[str, ...]], ...]
    unknown: tuple[Parameter, ...]
    trusted: bool

    @property
    def right(self) -> bool:
        """Whether the pass provably computes what a single device computes."""
        return not (self.conflicts or self.wrong or self.unknown or self.trusted)


def run(setup: Setup, contract: Contract = "torch") -> Pass:
    """Walks forward and backward.

    Args:
        setup: the forward pass and the styles.
        contract: what the loss takes: `torch` whole logits or any DTensor, `hf` whole logits only, `nemo-rl` whole
            logits or a DTensor cut evenly along the vocabulary.
    """
    frame = Frame(setup, setup.graph.events).walk()
    starts: dict[int, Gradient] = {}
    for value in setup.graph.outputs:
        out = frame.tensor(value)
        if not out.is_float:
            continue
        conflict = _head(out, contract)
        if conflict:
            frame.record(conflict)
        known = out.truth is not None and not conflict
        starts[out.number] = Gradient(
            for_gradient(out.truth) if known and out.truth else None,
            None if out.claim is None else for_gradient(out.claim),
        )
    back = backward.walk(frame, starts)
    conflicts = tuple((conflict, tuple(each.layers)) for each in frames(frame) for conflict in each.trail.conflicts)
    walks = list(_walks(back, frame))
    wrong = tuple((each, tuple(of.layers)) for walk, of in walks for each in walk.wrong)
    unknown = tuple(each for walk, _ in walks for each in walk.unknown)
    trusted = any(walk.trusted for walk, _ in walks)
    return Pass(frame, back, conflicts, wrong, unknown, trusted)


def frames(frame: Frame) -> Iterator[Frame]:
    """A frame and those of the layers that it calls, each once, in order."""
    seen: set[int] = set()

    def visit(each: Frame) -> Iterator[Frame]:
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            for step in each.trail.steps:
                if isinstance(step, Called):
                    yield from visit(step.frame)

    return visit(frame)


def _walks(back: Backward, frame: Frame) -> Iterator[tuple[Backward, Frame]]:
    seen: set[int] = set()

    def visit(each: Backward, of: Frame) -> Iterator[tuple[Backward, Frame]]:
        if id(each) not in seen:
            seen.add(id(each))
            yield each, of
            for step, below in each.called:
                yield from visit(below, step.frame)

    return visit(back, frame)


def _head(out: Tensor, contract: Contract) -> Conflict | None:
    """What the loss makes of an output."""
    if out.truth is None:
        return None
    if out.claim is None:
        if out.truth == REPLICATE:
            return None
        return Conflict(Fault.HEAD, f"the model returns a plain tensor that is {out.truth} and not whole", None, (out,))
    if not out.honest:
        return Conflict(Fault.HEAD, f"the output claims to be {out.claim} and is {out.truth}", None, (out,))
    if contract == "torch":
        return None
    if contract == "hf":
        return Conflict(Fault.HEAD, "the loss of transformers takes plain logits, and this is a DTensor", True, (out,))
    last = len(out.shape) - 1
    if isinstance(out.claim, Replicate):
        return None
    if out.claim != Shard(last):
        text = f"the loss of NeMo-RL takes logits cut along the vocabulary, and these are {out.claim}"
        return Conflict(Fault.HEAD, text, None, (out,))
    if out.shape[last] % out.ranks:
        text = f"the loss of NeMo-RL takes equal parts, and {out.shape[last]} logits are no multiple of {out.ranks}"
        return Conflict(Fault.HEAD, text, None, (out,))
    return None
