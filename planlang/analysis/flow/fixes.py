"""Changes that would cure a fault; each is checked again before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from planlang.analysis.flow import suspects
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.change import Change, entering, from_last
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.faults import Occurrence, blamed
from planlang.analysis.flow.gradients import Wrong
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.words import star
from planlang.layout import Replicate, Shard
from planlang.plan.styles import Colwise, Replicated, Rowwise, Style
from planlang.plan.styles import Sequence as SequenceStyle

_CURED_WHOLE = {Fault.PARTIAL, Fault.PACKED, Fault.CUT, Fault.MISMATCH, Fault.HEAD, Fault.UNEVEN}
_CURED_WHOLE |= {Fault.REDUCED, Fault.LENGTH}


def cure(
    occurrence: Occurrence,
    seen: Pass,
    check: Callable[[Change], bool],
    whole: Callable[[Change], bool],
    unruled: Callable[[str], tuple[str, ...]],
) -> Change | None:
    """The first change that leaves no fault at all; else the first near the fault that cures it and makes no other.

    What makes a plan right with one change is most likely what is wrong with it, whichever rule the fault shows at.

    Args:
        occurrence: the fault.
        seen: the pass in which it was seen first.
        check: whether the plan with a change has this fault no more, and no new one.
        whole: whether the plan with a change is right.
        unruled: the linear layers of a module that no rule reaches, in star form: itself, or its children.
    """
    near = dict.fromkeys(_candidates(occurrence, seen, unruled))
    first = None
    for change in near:
        if check(change):
            if whole(change):
                return change
            first = first or change
    farther = (change for change in dict.fromkeys(_farther(occurrence, seen)) if change not in near)
    return next((change for change in farther if whole(change)), first)


def _candidates(occurrence: Occurrence, seen: Pass, unruled: Callable[[str], tuple[str, ...]]) -> Iterator[Change]:
    what = occurrence.what
    if isinstance(what, Wrong):
        yield from _for_gradient(occurrence, what, seen)
        return
    cause = blamed(what)
    yield from suspects.for_reader(what, seen)
    if what.fault is Fault.MISMATCH:
        yield from _partners(what, seen, unruled)
    if cause is not None:
        yield from _for_rule(what, cause, seen)
    yield from suspects.for_missing(occurrence, what, seen)


def _farther(occurrence: Occurrence, seen: Pass) -> Iterator[Change]:
    if isinstance(occurrence.what, Conflict):
        yield from suspects.for_makers(occurrence.what, seen)
        yield from suspects.as_others(occurrence.what, seen)


def _for_gradient(occurrence: Occurrence, wrong: Wrong, seen: Pass) -> Iterator[Change]:
    if wrong.parameter is None:
        return
    owners = tuple(dict.fromkeys(name.rpartition(".")[0] for name in occurrence.parameters))
    enters = entering(wrong.parameter.name.rpartition(".")[0], seen)
    if wrong.kind == "incomplete" and wrong.cause is None:
        if enters is not None and enters.plain and isinstance(enters.truth, Shard):
            yield Change(owners, SequenceStyle(dim=enters.truth.dim, local=True))
        yield Change(owners, Replicated(grad="sum"))
    elif wrong.cause is not None:
        style, old = wrong.cause.applied.style, wrong.cause.applied
        if isinstance(style, Replicated):
            yield Change(owners, replace(style, grad="none" if style.grad == "sum" else "sum"), old)
        if isinstance(style, SequenceStyle) and enters is not None and isinstance(enters.truth, Shard):
            yield Change(owners, replace(style, dim=enters.truth.dim), old)
        if isinstance(style, SequenceStyle):
            yield Change(owners, Replicated(grad="none"), old)
        yield Change(owners, None, old)


def _partners(conflict: Conflict, seen: Pass, unruled: Callable[[str], tuple[str, ...]]) -> Iterator[Change]:
    """Linear layers without a rule get one: those beside the one that has a rule its style, the next one the other."""
    lone = unruled(conflict.module)
    if lone == (star(conflict.module),):
        yield Change(lone, Rowwise())
    styles = [tensor.cause.applied.style for tensor in conflict.tensors if tensor.cause]
    styles += [Colwise(), *suspects.styles_of(seen)]
    for style in dict.fromkeys(each for each in styles if isinstance(each, Colwise | Rowwise)):
        yield Change(lone, style)
        for size in range(len(lone) - 1, 0, -1):
            yield from (Change(some, style) for some in combinations(lone, size))
    for tensor in conflict.tensors:
        if tensor.cause and isinstance(tensor.cause.applied.style, Colwise | Rowwise):
            yield Change((star(tensor.cause.module),), Colwise(), tensor.cause.applied)


def _for_rule(conflict: Conflict, cause: Cause, seen: Pass) -> Iterator[Change]:
    style = cause.applied.style
    tensor = conflict.tensors[0] if conflict.tensors else None
    tried: list[Style] = []
    if isinstance(style, Colwise | Rowwise | SequenceStyle) and conflict.fault in (
        Fault.MIXED,
        Fault.LENGTH,
        Fault.HEAD,
    ):
        tried.append(replace(style, local=not style.local))
    if isinstance(style, Colwise | Rowwise):
        if conflict.fault is Fault.CLAIM and tensor is not None and isinstance(tensor.truth, Shard | Replicate):
            other = Rowwise() if isinstance(style, Colwise) else Colwise()
            tried += [other, replace(style, in_=from_last(tensor.truth, len(tensor.shape)), out=Replicate())]
            tried.append(replace(style, in_=from_last(tensor.truth, len(tensor.shape))))
        if conflict.fault in _CURED_WHOLE:
            tried += [replace(style, out=Replicate()), replace(style, out=Replicate(), local=True)]
        if conflict.fault is Fault.MISMATCH or conflict.fault is Fault.CUT:
            tried += [type(style)(), Rowwise(), Colwise()]
    if isinstance(style, SequenceStyle) and conflict.fault is Fault.CLAIM:
        enters = entering(cause.module, seen)
        if enters is not None and isinstance(enters.truth, Shard):
            tried.append(replace(style, dim=enters.truth.dim))
        tried.append(Replicated(grad="none"))
    for each in tried:
        if each != style:
            yield Change((star(cause.module),), each, cause.applied)
