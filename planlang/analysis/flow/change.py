"""A change of one rule, and what candidates for one are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planlang.analysis.flow.cause import Applied
from planlang.analysis.flow.passes import Pass, frames
from planlang.analysis.flow.state import Tensor
from planlang.analysis.flow.words import and_list, together
from planlang.layout import Layout, Shard
from planlang.plan.spell import style_text
from planlang.plan.styles import Style
from planlang.syntax.printer import target_text


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


def entering(module: str, seen: Pass) -> Tensor | None:
    """The first tensor that a module gets."""
    for frame in frames(seen.frame):
        boundary = frame.trail.boundaries.get(module)
        if boundary:
            return next((tensor for tensor in boundary.ins if tensor is not None), None)
    return None


def from_last(layout: Layout, dims: int) -> Layout:
    """A layout of a tensor of so many dimensions, its last dimension written as -1."""
    last = isinstance(layout, Shard) and layout.dim == dims - 1
    return Shard(-1) if last else layout
