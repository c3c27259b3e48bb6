"""Changes that would cure a fault; each is checked again before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from planlang.analysis.flow.backward import Wrong
from planlang.analysis.flow.cause import Applied, Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.faults import Occurrence, blamed
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.state import REPLICATE, Tensor
from planlang.analysis.flow.words import star
from planlang.layout import Replicate, Shard
from planlang.plan.spell import style_text
from planlang.plan.styles import Colwise, Replicated, Rowwise, Sequence, Style


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that gets another style, or a new rule.

    Attributes:
        pattern: the modules, in star form.
        style: the new style; `None` takes the rule away.
        old: the rule that is changed; `None` for a new one.
    """

    pattern: str
    style: Style | None
    old: Applied | None = None

    @property
    def text(self) -> str:
        """What to write."""
        return f"{self.pattern}: {style_text(self.style)}" if self.style else ""

    def apply(self, applied: Mapping[str, Applied], modules: Mapping[str, tuple[str, ...]]) -> dict[str, Applied]:
        """The styles of all modules after the change; `modules` are the model's, by star form."""
        after = dict(applied)
        if self.old is not None:
            for name, each in applied.items():
                if each is self.old or (each.rule is not None and each.rule is self.old.rule):
                    del after[name]
                    if self.style is not None:
                        after[name] = Applied(self.style, each.rule)
        elif self.style is not None:
            made = Applied(self.style)
            after |= dict.fromkeys(modules.get(self.pattern, ()), made)
        return after


def cure(
    occurrence: Occurrence, seen: Pass, check: Callable[[Change], bool], kinds: Callable[[str], bool]
) -> Change | None:
    """The first change that cures a fault and makes no other.

    Args:
        occurrence: the fault.
        seen: the pass in which it was seen first.
        check: whether the plan with a change has this fault no more, and no new one.
        kinds: whether a module is a linear layer.
    """
    return next((change for change in _candidates(occurrence, seen, kinds) if check(change)), None)


def _candidates(occurrence: Occurrence, seen: Pass, linear: Callable[[str], bool]) -> Iterator[Change]:
    what = occurrence.what
    if isinstance(what, Wrong):
        yield from _for_gradient(what, seen)
        return
    cause = blamed(what)
    if what.fault is Fault.MISMATCH:
        yield from _partners(what, linear)
    if cause is not None:
        yield from _for_rule(what, cause)


def _for_gradient(wrong: Wrong, seen: Pass) -> Iterator[Change]:
    if wrong.parameter is None:
        return
    owner = wrong.parameter.name.rpartition(".")[0]
    pattern = star(owner)
    entering = _entering(owner, seen)
    if wrong.kind == "incomplete" and wrong.cause is None:
        if entering is not None and entering.plain and isinstance(entering.truth, Shard):
            yield Change(pattern, Sequence(dim=entering.truth.dim, local=True))
        yield Change(pattern, Replicated(grad="sum"))
    elif wrong.cause is not None:
        style = wrong.cause.applied.style
        if isinstance(style, Replicated):
            yield Change(pattern, replace(style, grad="none" if style.grad == "sum" else "sum"), wrong.cause.applied)
        if isinstance(style, Sequence) and entering is not None and isinstance(entering.truth, Shard):
            yield Change(pattern, replace(style, dim=entering.truth.dim), wrong.cause.applied)
        if isinstance(style, Sequence):
            yield Change(pattern, Replicated(grad="none"), wrong.cause.applied)
        yield Change(pattern, None, wrong.cause.applied)


def _entering(module: str, seen: Pass) -> Tensor | None:
    """The first tensor that a module gets."""
    from planlang.analysis.flow.passes import frames

    for frame in frames(seen.frame):
        boundary = frame.trail.boundaries.get(module)
        if boundary:
            return next((tensor for tensor in boundary.ins if tensor is not None), None)
    return None


def _partners(conflict: Conflict, linear: Callable[[str], bool]) -> Iterator[Change]:
    """Modules without a rule that feed the operator get the style of the one that has one."""
    ruled = next((tensor.cause for tensor in conflict.tensors if tensor.cause), None)
    for tensor in conflict.tensors:
        if tensor.truth == REPLICATE and tensor.cause is None and tensor.source and linear(tensor.source) and ruled:
            yield Change(star(tensor.source), ruled.applied.style)
    for tensor in conflict.tensors:
        if tensor.cause and isinstance(tensor.cause.applied.style, Colwise | Rowwise):
            yield Change(star(tensor.cause.module), Colwise(), tensor.cause.applied)


def _for_rule(conflict: Conflict, cause: Cause) -> Iterator[Change]:
    style, pattern = cause.applied.style, star(cause.module)
    tensor = conflict.tensors[0] if conflict.tensors else None
    tried: list[Style] = []
    if isinstance(style, Colwise | Rowwise | Sequence) and conflict.fault in (Fault.MIXED, Fault.LENGTH, Fault.HEAD):
        tried.append(replace(style, local=not style.local))
    if isinstance(style, Colwise | Rowwise):
        if conflict.fault is Fault.CLAIM and tensor is not None and isinstance(tensor.truth, Shard | Replicate):
            tried.append(replace(style, in_=tensor.truth))
        if conflict.fault in (Fault.PARTIAL, Fault.PACKED, Fault.CUT, Fault.MISMATCH, Fault.HEAD, Fault.UNEVEN):
            tried += [replace(style, out=Replicate()), replace(style, out=Replicate(), local=True)]
        if conflict.fault is Fault.MISMATCH or conflict.fault is Fault.CUT:
            tried += [type(style)(), Rowwise(), Colwise()]
    for each in tried:
        if each != style:
            yield Change(pattern, each, cause.applied)
