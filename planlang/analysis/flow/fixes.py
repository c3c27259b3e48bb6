"""Changes that would cure a fault; each is checked again before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from planlang.analysis.flow.cause import Applied, Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.faults import Occurrence, blamed
from planlang.analysis.flow.gradients import Wrong
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.state import Tensor
from planlang.analysis.flow.words import and_list, star, together
from planlang.layout import Layout, Replicate, Shard
from planlang.plan.spell import style_text
from planlang.plan.styles import Colwise, Replicated, Rowwise, Style
from planlang.plan.styles import Sequence as SequenceStyle
from planlang.syntax.printer import target_text

_CURED_WHOLE = {Fault.PARTIAL, Fault.PACKED, Fault.CUT, Fault.MISMATCH, Fault.HEAD, Fault.UNEVEN}
_CURED_WHOLE |= {Fault.REDUCED, Fault.LENGTH}


@dataclass(frozen=True, slots=True)
class Change:
    """A rule that gets another style, or a new rule.

    Attributes:
        modules: the modules, in star form.
        style: the new style; `None` takes the rule away.
        old: the rule that is changed; `None` for a new one.
        among: all modules of the model, in star form: a new rule is written as `*.mlp.up_proj` where that says it all.
    """

    modules: tuple[str, ...]
    style: Style | None
    old: Applied | None = None
    among: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def patterns(self) -> tuple[str, ...]:
        """What to write before the colon, of each rule that it takes."""
        if self.old is not None and self.old.rule is not None:
            return (target_text(self.old.rule.target),)
        return tuple(together(_shortened(name, self.among) for name in self.modules))

    @property
    def text(self) -> str:
        """What to do, for a person."""
        patterns = self.patterns
        if self.style is None:
            return f"take the rule for {and_list([f'`{each}`' for each in patterns])} away"
        lines = [f"`{pattern}: {style_text(self.style)}`" for pattern in patterns]
        return f"write {and_list(lines)}"

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
            for module in self.modules:
                after |= dict.fromkeys(modules.get(module, ()), made)
        return after


def _shortened(name: str, among: Sequence[str]) -> str:
    """The shortest form with `*` for any leading segments, and two of its own, that means no other module."""
    segments = name.split(".")
    for start in range(len(segments) - 2, 0, -1):
        tail = "." + ".".join(segments[start:])
        if [each for each in among if each.endswith(tail)] == [name]:
            return f"*{tail}"
    return name


def cure(
    occurrence: Occurrence, seen: Pass, check: Callable[[Change], bool], unruled: Callable[[str], tuple[str, ...]]
) -> Change | None:
    """The first change that cures a fault and makes no other.

    Args:
        occurrence: the fault.
        seen: the pass in which it was seen first.
        check: whether the plan with a change has this fault no more, and no new one.
        unruled: the linear layers of a module that no rule reaches, in star form: itself, or its children.
    """
    return next((change for change in _candidates(occurrence, seen, unruled) if check(change)), None)


def _candidates(occurrence: Occurrence, seen: Pass, unruled: Callable[[str], tuple[str, ...]]) -> Iterator[Change]:
    what = occurrence.what
    if isinstance(what, Wrong):
        yield from _for_gradient(occurrence, what, seen)
        return
    cause = blamed(what)
    if what.fault is Fault.MISMATCH:
        yield from _partners(what, unruled)
    if cause is not None:
        yield from _for_rule(what, cause, seen)


def _for_gradient(occurrence: Occurrence, wrong: Wrong, seen: Pass) -> Iterator[Change]:
    if wrong.parameter is None:
        return
    owners = tuple(dict.fromkeys(name.rpartition(".")[0] for name in occurrence.parameters))
    entering = _entering(wrong.parameter.name.rpartition(".")[0], seen)
    if wrong.kind == "incomplete" and wrong.cause is None:
        if entering is not None and entering.plain and isinstance(entering.truth, Shard):
            yield Change(owners, SequenceStyle(dim=entering.truth.dim, local=True))
        yield Change(owners, Replicated(grad="sum"))
    elif wrong.cause is not None:
        style, old = wrong.cause.applied.style, wrong.cause.applied
        if isinstance(style, Replicated):
            yield Change(owners, replace(style, grad="none" if style.grad == "sum" else "sum"), old)
        if isinstance(style, SequenceStyle) and entering is not None and isinstance(entering.truth, Shard):
            yield Change(owners, replace(style, dim=entering.truth.dim), old)
        if isinstance(style, SequenceStyle):
            yield Change(owners, Replicated(grad="none"), old)
        yield Change(owners, None, old)


def _entering(module: str, seen: Pass) -> Tensor | None:
    """The first tensor that a module gets."""
    from planlang.analysis.flow.passes import frames

    for frame in frames(seen.frame):
        boundary = frame.trail.boundaries.get(module)
        if boundary:
            return next((tensor for tensor in boundary.ins if tensor is not None), None)
    return None


def _partners(conflict: Conflict, unruled: Callable[[str], tuple[str, ...]]) -> Iterator[Change]:
    """Linear layers without a rule get one: those beside the one that has a rule its style, the next one the other."""
    lone = unruled(conflict.module)
    if lone == (star(conflict.module),):
        yield Change(lone, Rowwise())
    styles = [tensor.cause.applied.style for tensor in conflict.tensors if tensor.cause]
    for style in dict.fromkeys(each for each in (*styles, Colwise()) if isinstance(each, Colwise | Rowwise)):
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
            tried += [other, replace(style, in_=_from_last(tensor), out=Replicate())]
            tried.append(replace(style, in_=_from_last(tensor)))
        if conflict.fault in _CURED_WHOLE:
            tried += [replace(style, out=Replicate()), replace(style, out=Replicate(), local=True)]
        if conflict.fault is Fault.MISMATCH or conflict.fault is Fault.CUT:
            tried += [type(style)(), Rowwise(), Colwise()]
    if isinstance(style, SequenceStyle) and conflict.fault is Fault.CLAIM:
        entering = _entering(cause.module, seen)
        if entering is not None and isinstance(entering.truth, Shard):
            tried.append(replace(style, dim=entering.truth.dim))
        tried.append(Replicated(grad="none"))
    for each in tried:
        if each != style:
            yield Change((star(cause.module),), each, cause.applied)


def _from_last(tensor: Tensor) -> Layout:
    """How a tensor lies, its last dimension written as -1."""
    assert tensor.truth is not None
    last = isinstance(tensor.truth, Shard) and tensor.truth.dim == len(tensor.shape) - 1
    return Shard(-1) if last else tensor.truth
