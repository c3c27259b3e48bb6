"""The resolved plan: conditions decided, includes merged, names replaced, every default filled in.

This is what matching, checks and targets read. It holds no syntax but the patterns, and it compares by meaning: places
are left out of equality, so a plan that was written as YAML and read back equals the plan it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from planlang.layout import Layout
from planlang.plan.conditions import Value
from planlang.plan.styles import Scalar, Style
from planlang.source import Place
from planlang.syntax.nodes import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A mesh axis; `size` is `None` where the plan holds for any."""

    name: str
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        target: which modules, by pattern.
        style: how, with every argument.
        level: 0 for a rule of the plan itself, 1 for one of the plan it extends, and so on: a lower level wins.
        override: whether it may replace an earlier rule of its own level.
        above: the comment lines right above it.
        behind: the comment on its own line.
        place: where it stands.
        arguments: where each argument stands that is written in the rule itself, by name.
    """

    target: Target
    style: Style
    level: int = 0
    override: bool = False
    above: tuple[str, ...] = ()
    behind: str = ""
    place: Place | None = field(default=None, compare=False, repr=False)
    arguments: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)

    def place_of(self, argument: str) -> Place | None:
        """Where an argument stands; where the rule does if it is not written there."""
        return self.arguments.get(argument, self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Removes what rules of a higher level say about the modules it matches."""

    target: Target
    level: int = 0
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """A claim about a module's boundary; nothing is emitted for it.

    Attributes:
        in_: one layout for each positional input, `None` where nothing is claimed.
        keywords: the same for inputs passed by name.
        out: one for each output.
    """

    target: Target
    in_: tuple[Layout | None, ...] = ()
    keywords: tuple[tuple[str, Layout], ...] = ()
    out: tuple[Layout | None, ...] = ()
    level: int = 0
    place: Place | None = field(default=None, compare=False, repr=False)


Entry: TypeAlias = Rule | Drop | Expect


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What conditions and requirements were decided with: the plan holds for these alone.

    Attributes:
        sizes: the sizes of mesh axes that the plan itself does not give.
        config: settings of the model.
    """

    sizes: tuple[tuple[str, int], ...] = ()
    config: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A resolved plan.

    Attributes:
        name: an identifier.
        classes: the model classes that it is written for.
        description: the comment lines above `plan`.
        mesh: the axes in order, with the sizes that the plan gives.
        options: what every option was set to, in the order of their declaration.
        decided: the sizes and settings that its conditions were decided with.
        entries: rules, drops and expectations, inherited ones first, each file's in their order.
        place: where the `plan` line stands.
        class_places: where each class is named.
    """

    name: str
    classes: tuple[str, ...]
    description: tuple[str, ...] = ()
    mesh: tuple[Axis, ...] = (Axis(name="tp"),)
    options: tuple[tuple[str, Scalar], ...] = ()
    decided: Decided = Decided()
    entries: tuple[Entry, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)
    class_places: tuple[Place, ...] = field(default=(), compare=False, repr=False)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules alone."""
        return tuple(entry for entry in self.entries if isinstance(entry, Rule))

    def axis(self, name: str) -> Axis | None:
        """The mesh axis of that name."""
        return next((axis for axis in self.mesh if axis.name == name), None)
