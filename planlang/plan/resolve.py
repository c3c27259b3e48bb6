"""From the files of a plan to the resolved plan: options, conditions, names and inheritance are decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import Finding, Related, did_you_mean
from planlang.layout import Layout
from planlang.plan import ir
from planlang.plan.conditions import Scope, Undecidable, Unknown, decide, names_in, spelt, unknown_names
from planlang.plan.conditions import Value as ConfigValue
from planlang.plan.files import Program, Unit
from planlang.plan.options import read_option
from planlang.plan.styles import STYLES, axis_of
from planlang.plan.values import Styles, Wrong, layout
from planlang.source import Place, Span
from planlang.syntax import nodes
from planlang.syntax.nodes import (
    AnyStatement,
    Broken,
    Drop,
    Expect,
    Extends,
    Let,
    MeshLine,
    Option,
    PlanLine,
    Require,
    Rule,
    When,
)


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


def resolve(program: Program, facts: Facts) -> tuple[ir.Plan | None, tuple[Finding, ...]]:
    """The resolved plan, and what is wrong with the files.

    There is no plan only where the file has no usable `plan` line; with other mistakes the plan lacks what they spoil.
    """
    resolver = _Resolver(program, facts)
    plan = resolver.run()
    return plan, tuple(resolver.findings)


class _Resolver:
    def __init__(self, program: Program, facts: Facts) -> None:
        self.program = program
        self.facts = facts
        self.findings: list[Finding] = []
        self.options: dict[str, bool | int | str] = {}
        self.declared: dict[str, Place] = {}
        self.lets: dict[str, nodes.Style | None] = {}
        self.mesh: tuple[ir.Axis, ...] = (ir.Axis(name="tp"),)
        self.entries: list[ir.Entry] = []
        self.used: set[str] = set()

    def run(self) -> ir.Plan | None:
        units = self.program.units
        for unit in reversed(units):
            self._header(unit)
        self._set_options()
        for level in reversed(range(len(units))):
            _File(self, units[level], level).run()
        own = units[0]
        line = next((s for s in own.file.statements if isinstance(s, PlanLine)), None)
        if line is None:
            return None
        return ir.Plan(
            name=line.name.text,
            classes=tuple(name.text for name in line.classes),
            description=line.comments.above,
            mesh=self.mesh,
            options=tuple(self.options.items()),
            entries=tuple(self.entries),
            place=own.source.place(line.span),
            class_places=tuple(own.source.place(name.span) for name in line.classes),
        )

    def report(
        self, code: Code, place: Place | None, message: str, help: str = "", *, related: tuple[Related, ...] = ()
    ) -> None:
        """Adds a finding."""
        self.findings.append(Finding(code=code, message=message, place=place, help=help, related=related))

    def _header(self, unit: Unit) -> None:
        """The `plan` and `mesh` lines and the options of one file."""
        statements = unit.file.statements
        source = unit.source
        first: dict[type[AnyStatement], AnyStatement] = {}
        for statement in statements:
            if isinstance(statement, PlanLine | MeshLine | Extends):
                word = source.text[statement.span.start : statement.span.end].split()[0]
                earlier = first.setdefault(type(statement), statement)
                if earlier is not statement:
                    related = (Related(place=source.place(earlier.span), message="the first one"),)
                    message = f"a file has one `{word}` line"
                    self.report(
                        codes.MISPLACED_STATEMENT, source.place(statement.span), message, "remove one", related=related
                    )
            if isinstance(statement, Option):
                self._option(statement, unit)
        self._plan_line(unit)
        mesh = first.get(MeshLine)
        if isinstance(mesh, MeshLine):
            self.mesh = self._mesh(mesh, unit)

    def _plan_line(self, unit: Unit) -> None:
        statements = unit.file.statements
        source = unit.source
        line = next((s for s in statements if isinstance(s, PlanLine)), None)
        if line is None:
            if statements and isinstance(statements[0], Broken):
                return
            at = statements[0].span.start if statements else 0
            message = (
                "a plan begins with a line that names it and its model classes"
                if statements
                else "the file holds no plan"
            )
            help_ = f"write `plan {_identifier(source.name)} for Qwen3ForCausalLM` or the like as its first line"
            self.report(codes.MISSING_PLAN_LINE, source.place(Span(at, at)), message, help_)
        elif line is not statements[0] and not isinstance(statements[0], Broken):
            place = source.place(line.span)
            self.report(codes.MISPLACED_STATEMENT, place, "the `plan` line is not the first", "move it to the top")
        if line:
            seen: set[str] = set()
            for name in line.classes:
                if name.text in seen:
                    place = source.place(name.span)
                    self.report(codes.REPEATED_NAME, place, f"the class `{name.text}` is named twice", "remove one")
                seen.add(name.text)

    def _mesh(self, line: MeshLine, unit: Unit) -> tuple[ir.Axis, ...]:
        axes: dict[str, ir.Axis] = {}
        for axis in line.axes:
            name, place = axis.name.text, unit.source.place(axis.span)
            if name in axes:
                self.report(codes.REPEATED_AXIS, place, f"the mesh axis `{name}` is named twice", "remove one")
                continue
            if name in self.options:
                related = (Related(place=self.declared[name], message="the option"),)
                message = f"`{name}` is both an option and a mesh axis"
                self.report(codes.REPEATED_NAME, place, message, "rename the option", related=related)
            if axis.size == 0:
                self.report(codes.MESH_SIZE_CONFLICT, place, f"the mesh axis `{name}` has size 0", "give 1 or more")
            axes[name] = ir.Axis(name=name, size=self._size(axis, place))
        return tuple(axes.values())

    def _size(self, axis: nodes.Axis, place: Place) -> int | None:
        given = self.facts.sizes.get(axis.name.text)
        if given is not None and axis.size and given != axis.size:
            name = axis.name.text
            message = f"the plan is written for {name}={axis.size}, and {name}={given} is asked for"
            self.report(codes.MESH_SIZE_CONFLICT, place, message, f"remove `={axis.size}`, or use {name}={axis.size}")
        return axis.size or given

    def _option(self, option: Option, unit: Unit) -> None:
        name, place = option.name.text, unit.source.place(option.name.span)
        here = self.declared.get(name)
        if here and here.source is unit.source:
            related = (Related(place=here, message="first declared here"),)
            self.report(
                codes.REPEATED_NAME, place, f"the option `{name}` is declared twice", "remove one", related=related
            )
            return
        value = option.default.value
        if here and type(self.options[name]) is not type(value):
            related = (Related(place=here, message="declared here"),)
            message = f"the option `{name}` changes its type in the plan that extends it"
            self.report(codes.BAD_OPTION_VALUE, place, message, "keep the type", related=related)
            return
        self.options[name] = value
        self.declared[name] = place

    def _set_options(self) -> None:
        for name, given in self.facts.options.items():
            if name not in self.options:
                broken = {
                    s.declares for unit in self.program.units for s in unit.file.statements if isinstance(s, Broken)
                }
                if name not in broken:
                    otherwise = (
                        f"its options are {', '.join(f'`{n}`' for n in self.options)}"
                        if self.options
                        else "it has none"
                    )
                    help_ = did_you_mean(name, self.options, otherwise)
                    self.report(codes.UNKNOWN_OPTION, None, f"the plan has no option `{name}`", help_)
                continue
            value = read_option(given, self.options[name])
            if isinstance(value, str) and not isinstance(self.options[name], str):
                related = (Related(place=self.declared[name], message="declared here"),)
                self.report(codes.BAD_OPTION_VALUE, None, f"the option `{name}` cannot be {value}", related=related)
            else:
                self.options[name] = value

    def scope(self) -> Scope:
        """What conditions may name."""
        sizes = {
            axis.name: axis.size if axis.size is not None else self.facts.sizes.get(axis.name) for axis in self.mesh
        }
        return Scope(options=self.options, axes=sizes, config=self.facts.config)


class _File:
    """The statements of one file, in their order."""

    def __init__(self, resolver: _Resolver, unit: Unit, level: int) -> None:
        self.resolver = resolver
        self.source = unit.source
        self.statements = unit.file.statements
        self.level = level
        self.own_lets: dict[str, Place] = {}
        self.unheld: set[str] = set()  # names that only blocks give which do not hold
        self.implicit_axis_reported = False
        self.broken = any(isinstance(statement, Broken) for statement in self.statements)
        for statement in self.statements:
            if isinstance(statement, Broken) and statement.declares:
                resolver.lets[statement.declares] = None

    def run(self) -> None:
        self._statements(self.statements, live=True, top=True)
        if self.level == 0 and not self.broken:
            for name, place in self.own_lets.items():
                if name not in self.resolver.used:
                    self.resolver.report(codes.UNUSED_LET, place, f"`{name}` is never used", "remove it")

    def _statements(self, statements: Iterable[AnyStatement], *, live: bool, top: bool) -> None:
        for statement in statements:
            match statement:
                case PlanLine() | MeshLine() | Extends() | Option():
                    if not top:
                        self._report(
                            codes.MISPLACED_STATEMENT,
                            statement.span,
                            "this line may not stand in a block",
                            "move it out",
                        )
                case Let():
                    self._let(statement, live=live)
                case When():
                    self._when(statement, live=live)
                case Require():
                    self._require(statement, live=live)
                case Rule():
                    self._rule(statement, live=live)
                case Drop():
                    self._drop(statement, live=live)
                case Expect():
                    self._expect(statement, live=live)
                case Broken():
                    self._statements(statement.inside, live=False, top=True)
                case _:
                    assert_never(statement)

    def _report(self, code: Code, span: Span, message: str, help: str = "") -> None:
        self.resolver.report(code, self.source.place(span), message, help)

    def _styles(self) -> Styles:
        return Styles(lets=self.resolver.lets, report=self._report)

    def _let(self, let: Let, *, live: bool) -> None:
        name, span = let.name.text, let.name.span
        place = self.source.place(span)
        self._use(let.style)
        resolved = self._styles().resolve(let.style)
        if name in STYLES:
            self._report(codes.REPEATED_NAME, span, f"`{name}` is a style of the language", "choose another name")
        elif not live:
            self.unheld.add(name)
        elif name in self.own_lets:
            related = (Related(place=self.own_lets[name], message="first named here"),)
            message = f"the name `{name}` is given twice"
            self.resolver.report(codes.REPEATED_NAME, place, message, "rename one", related=related)
        else:
            self.own_lets[name] = place
            self.resolver.lets[name] = self._styles().expanded(let.style) if resolved else None

    def _use(self, style: nodes.Style) -> None:
        self.resolver.used.add(style.word.text)

    def _when(self, when: When, *, live: bool) -> None:
        holds: bool | None = None
        if live:
            decided = self._decide(when.condition)
            if isinstance(decided, Unknown):
                message = "whether this holds is not known here"
                help_ = f"give {_article(decided.what)}"
                self._report(codes.UNDECIDED_CONDITION, when.condition.span, message, help_)
            else:
                holds = decided
        self._statements(when.then, live=holds is True, top=False)
        self._statements(when.otherwise, live=holds is False, top=False)

    def _decide(self, condition: nodes.Condition) -> bool | Unknown | None:
        """Whether a condition holds; `None` after a report."""
        scope = self.resolver.scope()
        try:
            wrong = unknown_names(condition, scope)
            if not wrong:
                return decide(condition, scope)
        except Undecidable as error:
            wrong = [error]
        for each in wrong:
            self._report(each.code, each.span, each.message, each.help)
        return None

    def _require(self, require: Require, *, live: bool) -> None:
        decided = self._decide(require.condition) if live else None
        why = str(require.why.value)
        if isinstance(decided, Unknown):
            message = f'the requirement "{why}" is not checked'
            help_ = f"give {_article(decided.what)} to check it"
            self._report(codes.UNCHECKED_REQUIREMENT, require.condition.span, message, help_)
        elif decided is False:
            self._report(
                codes.REQUIREMENT_FAILED, require.condition.span, why or "a requirement fails", self._values(require)
            )

    def _values(self, require: Require) -> str:
        """What the names in a requirement stand for."""
        scope = self.resolver.scope()
        known: dict[str, object] = {**scope.options, **{k: v for k, v in scope.axes.items() if v is not None}}
        known |= {f"config.{name}": value for name, value in (scope.config or {}).items()}
        used = [name for name in names_in(require.condition) if name in known]
        return f"here {', '.join(f'`{name}` is {spelt(known[name])}' for name in used)}" if used else ""

    def _rule(self, rule: Rule, *, live: bool) -> None:
        self._use(rule.style)
        if not live and rule.style.word.text in self.unheld:
            return
        style = self._styles().resolve(rule.style)
        if style is None:
            return
        self._check_axis(rule, axis_of(style))
        if live:
            entry = ir.Rule(
                target=rule.target,
                style=style,
                level=self.level,
                override=rule.override,
                above=rule.comments.above,
                behind=rule.comments.behind,
                place=self.source.place(rule.span),
            )
            self.resolver.entries.append(entry)

    def _check_axis(self, rule: Rule, axis: str | None) -> None:
        names = [known.name for known in self.resolver.mesh]
        if axis is None or axis in names:
            return
        written = next((a for a in rule.style.arguments if a.name and a.name.text == "axis"), None)
        have = f"its axes are {', '.join(f'`{name}`' for name in names)}"
        if written:
            message = f"the mesh has no axis `{axis}`"
            self._report(codes.UNKNOWN_AXIS, written.value.span, message, did_you_mean(axis, names, have))
        elif not self.implicit_axis_reported:
            self.implicit_axis_reported = True
            message = f"rules act on the axis `{axis}`, which the mesh does not have: {have}"
            self._report(
                codes.UNKNOWN_AXIS,
                rule.style.span,
                message,
                f"name `{axis}` in the `mesh` line, or write `axis={names[0]}` in the rules",
            )

    def _drop(self, drop: Drop, *, live: bool) -> None:
        if not any(isinstance(statement, Extends) for statement in self.statements):
            message = "there is nothing to drop: this plan extends no other"
            self._report(
                codes.MISPLACED_STATEMENT, drop.span, message, 'write `extends "…"` first, or remove this line'
            )
        elif live:
            place = self.source.place(drop.span)
            self.resolver.entries.append(ir.Drop(target=drop.target, level=self.level, place=place))

    def _expect(self, expect: Expect, *, live: bool) -> None:
        sides: dict[str, tuple[Layout | None, ...]] = {}
        keywords: tuple[tuple[str, Layout], ...] = ()
        for claim in expect.claims:
            assert claim.name is not None
            side = claim.name.text
            if side not in ("in", "out"):
                self._report(
                    codes.UNKNOWN_ARGUMENT,
                    claim.name.span,
                    f"`expect` claims nothing about `{side}`",
                    "it takes `in` and `out`",
                )
                return
            if side in sides:
                self._report(codes.REPEATED_ARGUMENT, claim.name.span, f"`{side}` is given twice", "remove one")
                return
            try:
                if isinstance(claim.value, nodes.Map) and side == "in":
                    keywords = tuple((entry.name.text, layout(entry.value)) for entry in claim.value.entries)
                    sides[side] = ()
                else:
                    sides[side] = _layouts(claim.value)
            except Wrong as wrong:
                self._report(codes.BAD_ARGUMENT, wrong.span, f"`{side}` {wrong.message}", wrong.help)
                return
        if live:
            self.resolver.entries.append(
                ir.Expect(
                    target=expect.target,
                    in_=sides.get("in", ()),
                    keywords=keywords,
                    out=sides.get("out", ()),
                    level=self.level,
                    place=self.source.place(expect.span),
                )
            )


def _layouts(value: nodes.Value) -> tuple[Layout | None, ...]:
    if isinstance(value, nodes.Tuple):
        return tuple(None if item == nodes.Word(text="none") else layout(item) for item in value.values)
    return (layout(value),)


def _article(what: str) -> str:
    return f"`{what} …`" if what.startswith("--") else what


def _identifier(name: str) -> str:
    stem = name.replace("\\", "/").rpartition("/")[2].partition(".")[0]
    return stem if stem.isidentifier() else "my_plan"
