"""Changes of other rules than the one that a fault shows at: of who reads or made a tensor, and missing ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.change import Change, entering, from_last
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.faults import Occurrence
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.state import Tensor
from planlang.analysis.flow.words import star
from planlang.layout import Replicate, Shard
from planlang.model.tree import Kind
from planlang.plan.styles import Colwise, Replicated, Rowwise, Style
from planlang.plan.styles import Sequence as SequenceStyle

MOST_BACK = 3  # modules that hand a tensor on


def for_reader(conflict: Conflict, seen: Pass) -> Iterator[Change]:
    """The layer that reads a DTensor says how it lies: torch converts it only where `in` is not its default."""
    applied = seen.frame.setup.applied.get(conflict.module)
    if applied is None or not isinstance(applied.style, Colwise | Rowwise) or not conflict.tensors:
        return
    enters = entering(conflict.module, seen)
    if enters is None or enters.claim is None:
        return
    layout = from_last(enters.claim, len(enters.shape))
    styles = (replace(applied.style, in_=layout), Colwise(in_=layout, local=applied.style.local))
    yield from (Change((star(conflict.module),), each, applied) for each in styles if each != applied.style)


def for_missing(occurrence: Occurrence, conflict: Conflict, seen: Pass) -> Iterator[Change]:
    """A module without a rule, whose plain weight meets a DTensor, gets one; a linear layer one as others have."""
    ruled = {star(name) for name in seen.frame.setup.applied}
    lone = tuple(name for name in occurrence.modules if name and name not in ruled)
    other = next((each for each in conflict.tensors if each.claim is not None), None)
    if conflict.fault is not Fault.MIXED or not lone or other is None:
        return
    if conflict.operator.endswith("linear"):
        layout = from_last(other.claim or Replicate(), len(other.shape))
        yield Change(lone, Colwise(in_=layout, out=Replicate()))
        yield from (Change(lone, style) for style in styles_of(seen) if isinstance(style, Colwise | Rowwise))
        return
    if isinstance(other.claim, Shard):
        yield Change(lone, SequenceStyle(dim=other.claim.dim))
    yield Change(lone, Replicated(grad="none"))


def for_makers(conflict: Conflict, seen: Pass) -> Iterator[Change]:
    """The layers that the tensors come from return them as another one lies, or as such a layer usually does."""
    tried: dict[Change, None] = {}
    for tensor in conflict.tensors:
        for cause in _makers(tensor, seen):
            style = cause.applied.style
            if not isinstance(style, Colwise | Rowwise):
                continue
            usual = type(style)()
            back: list[Style] = [replace(style, out=usual.out, local=usual.local)]
            styles = list(back) if conflict.fault is Fault.MISMATCH else []
            for other in conflict.tensors:
                wanted = other.claim if other is tensor else other.truth
                if wanted is not None:
                    styles.append(replace(style, out=from_last(wanted, len(other.shape)), local=other.plain))
            styles += [replace(style, local=not style.local), *back, usual, Colwise(), Rowwise()]
            tried |= {Change((star(cause.module),), each, cause.applied): None for each in styles if each != style}
    yield from tried


def as_others(conflict: Conflict, seen: Pass) -> Iterator[Change]:
    """The rules that have a part in it get the style of another rule of the plan for modules of their kind."""
    applied = seen.frame.setup.applied
    involved = [conflict.cause, *(cause for tensor in conflict.tensors for cause in _makers(tensor, seen))]
    if conflict.module in applied:
        involved.append(Cause(conflict.module, applied[conflict.module]))
    tried: dict[Change, None] = {}
    for cause in filter(None, involved):
        matrix = seen.frame.setup.kinds.get(cause.module) in (Kind.LINEAR, Kind.EMBEDDING)
        styles = [Colwise(), Rowwise(), *styles_of(seen)] if matrix else styles_of(seen)
        kind = Colwise | Rowwise if matrix else SequenceStyle | Replicated
        fitting: list[Style | None] = [None] if any(name.startswith(f"{cause.module}.") for name in applied) else []
        fitting += [each for each in styles if isinstance(each, kind) and each != cause.applied.style]
        tried |= {Change((star(cause.module),), each, cause.applied): None for each in fitting}
    yield from tried


def styles_of(seen: Pass) -> tuple[Style, ...]:
    """The styles of the plan, each once."""
    return tuple(dict.fromkeys(each.style for each in seen.frame.setup.applied.values()))


def _makers(tensor: Tensor, seen: Pass) -> Iterator[Cause]:
    """The rules that had a tensor in hands, the last one first; those of norms only hand on what they get."""
    causes = _handed(tensor, seen)
    known: list[Cause] = []
    while causes and len(known) < MOST_BACK:
        cause = causes.pop(0)
        if any(cause.applied is each.applied for each in known):
            continue
        known.append(cause)
        yield cause
        enters = None if isinstance(cause.applied.style, Colwise | Rowwise) else entering(cause.module, seen)
        causes += _handed(enters, seen) if enters is not None else []


def _handed(tensor: Tensor, seen: Pass) -> list[Cause]:
    """Who a tensor is from: the rules that made it lie as it does, and that of the module that returned it."""
    applied = seen.frame.setup.applied
    causes = [cause for cause in (tensor.cause, tensor.origin) if cause is not None]
    source: str = tensor.source
    for _ in range(MOST_BACK):  # modules without a rule are passed through
        if not source or source in applied:
            break
        enters = entering(source, seen)
        source = enters.source if enters is not None and enters.source != source else ""
    return [*causes, Cause(source, applied[source])] if source in applied else causes
