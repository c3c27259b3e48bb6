"""What is gathered while the files of a plan are read: options, names, the mesh, entries and findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import Finding, Related
from planlang.plan import ir
from planlang.plan.conditions import Scope, Unknown, decide, deciding
from planlang.plan.conditions import Value as ConfigValue
from planlang.source import Place
from planlang.syntax import nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known when a plan is resolved.

    Attributes:
        options: what the caller sets, by name: values, or texts as `-D` gives them.
        sizes: the sizes of mesh axes.
        config: the model's scalar settings; `None` without a model.
    """

    options: Mapping[str, bool | int | str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, ConfigValue] | None = None


@dataclass(slots=True)
class Gathered:
    """The state of one resolution.

    Attributes:
        facts: what the caller knows.
        options: the value of every option.
        declared: where each option was declared last.
        lets: what each `let` stands for; `None` for one that is wrong itself.
        used: the style words that occur.
        mesh: the axes.
        sizes, config: what conditions were decided with so far; see `ir.Decided`.
        entries: rules, drops and expectations so far.
        findings: what is wrong so far.
    """

    facts: Facts
    options: dict[str, bool | int | str] = field(default_factory=dict)
    declared: dict[str, Place] = field(default_factory=dict)
    lets: dict[str, nodes.Style | None] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    mesh: tuple[ir.Axis, ...] = (ir.Axis(name="tp"),)
    sizes: dict[str, int] = field(default_factory=dict)
    config: dict[str, ConfigValue] = field(default_factory=dict)
    entries: list[ir.Entry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def report(
        self, code: Code, place: Place | None, message: str, help: str = "", *, related: tuple[Related, ...] = ()
    ) -> None:
        """Adds a finding."""
        self.findings.append(Finding(code=code, message=message, place=place, help=help, related=related))

    def scope(self) -> Scope:
        """What conditions may name."""
        sizes = {
            axis.name: axis.size if axis.size is not None else self.facts.sizes.get(axis.name) for axis in self.mesh
        }
        return Scope(options=self.options, axes=sizes, config=self.facts.config)

    def decide(self, condition: nodes.Condition) -> bool | Unknown:
        """Whether a condition holds; the sizes and settings without which it could not be decided are kept.

        Raises:
            Undecidable: see `conditions.decide`.
        """
        scope = self.scope()
        decided = decide(condition, scope)
        if not isinstance(decided, Unknown):
            open_axes = {axis.name for axis in self.mesh if axis.size is None}
            given = {name: size for name, size in self.facts.sizes.items() if name in open_axes}
            sizes, config = deciding(condition, scope, given)
            self.sizes |= sizes
            self.config |= config
        return decided
