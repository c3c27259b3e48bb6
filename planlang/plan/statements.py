"""The statements of a file: names replaced, conditions decided, rules, drops and expectations made of what holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import Related, did_you_mean
from planlang.layout import Layout
from planlang.plan import ir
from planlang.plan.arguments import Styles
from planlang.plan.conditions import Undecidable, Unknown, names_in, spelt, unknown_names
from planlang.plan.files import Unit
from planlang.plan.gathered import Gathered
from planlang.plan.styles import STYLES, axis_of
from planlang.plan.values import Wrong, layout
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


class FileReader:
    """Reads the statements of one file, in their order, into what is gathered."""

    def __init__(self, gathered: Gathered, unit: Unit, level: int) -> None:
        self.gathered = gathered
        self.source = unit.source
        self.statements = unit.file.statements
        self.level = level
        self.own_lets: dict[str, Place] = {}
        self.unheld: set[str] = set()  # names that only blocks give which do not hold
        self.implicit_axis_reported = False
        self.broken = any(isinstance(statement, Broken) for statement in self.statements)
        for statement in self.statements:
            if isinstance(statement, Broken) and statement.declares:
                gathered.lets[statement.declares] = None

    def read(self) -> None:
        """Reads them all."""
        self._statements(self.statements, live=True, top=True)
        if self.level == 0 and not self.broken:
            for name, place in self.own_lets.items():
                if name not in self.gathered.used:
                    self.gathered.report(codes.UNUSED_LET, place, f"`{name}` is never used", "remove it")

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
        self.gathered.report(code, self.source.place(span), message, help)

    def _styles(self) -> Styles:
        return Styles(lets=self.gathered.lets, report=self._report, options=self.gathered.options)

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
            self.gathered.report(codes.REPEATED_NAME, place, message, "rename one", related=related)
        else:
            self.own_lets[name] = place
            self.gathered.lets[name] = self._styles().expanded(let.style) if resolved else None

    def _use(self, style: nodes.Style) -> None:
        self.gathered.used.add(style.word.text)

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
        if live and holds is None:  # what a `let` in it stands for is not known, and is no mistake of its own
            lets = [let.name.text for let in nodes.walk((*when.then, *when.otherwise)) if isinstance(let, Let)]
            self.gathered.lets |= dict.fromkeys(lets)

    def _decide(self, condition: nodes.Condition) -> bool | Unknown | None:
        """Whether a condition holds; `None` after a report."""
        scope = self.gathered.scope()
        try:
            wrong = unknown_names(condition, scope)
            if not wrong:
                return self.gathered.decide(condition)
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
        scope = self.gathered.scope()
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
                arguments={a.name.text: self.source.place(a.span) for a in rule.style.arguments if a.name},
            )
            self.gathered.entries.append(entry)

    def _check_axis(self, rule: Rule, axis: str | None) -> None:
        names = [known.name for known in self.gathered.mesh]
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
            self.gathered.entries.append(ir.Drop(target=drop.target, level=self.level, place=place))

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
            self.gathered.entries.append(
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
