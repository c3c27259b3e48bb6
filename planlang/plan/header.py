"""What stands at the top of the files of a plan: the `plan` line, the mesh, the options."""

from __future__ import annotations

from dataclasses import dataclass

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Related, did_you_mean
from planlang.plan import ir
from planlang.plan.files import Unit
from planlang.plan.gathered import Gathered
from planlang.plan.options import read_option
from planlang.source import Place, Span
from planlang.syntax import nodes
from planlang.syntax.nodes import AnyStatement, Broken, Extends, MeshLine, Option, PlanLine


@dataclass(frozen=True, slots=True)
class Header:
    """Reads the tops of the files into what is gathered."""

    units: tuple[Unit, ...]
    gathered: Gathered

    def read(self, unit: Unit) -> None:
        """The `plan` and `mesh` lines and the options of one file."""
        report = self.gathered.report
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
                    report(
                        codes.MISPLACED_STATEMENT, source.place(statement.span), message, "remove one", related=related
                    )
            if isinstance(statement, Option):
                self._option(statement, unit)
        self._plan_line(unit)
        mesh = first.get(MeshLine)
        if isinstance(mesh, MeshLine):
            self.gathered.mesh = self._mesh(mesh, unit)

    def _plan_line(self, unit: Unit) -> None:
        report = self.gathered.report
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
            report(codes.MISSING_PLAN_LINE, source.place(Span(at, at)), message, help_)
        elif line is not statements[0] and not isinstance(statements[0], Broken):
            place = source.place(line.span)
            report(codes.MISPLACED_STATEMENT, place, "the `plan` line is not the first", "move it to the top")
        if line:
            seen: set[str] = set()
            for name in line.classes:
                if name.text in seen:
                    place = source.place(name.span)
                    report(codes.REPEATED_NAME, place, f"the class `{name.text}` is named twice", "remove one")
                seen.add(name.text)

    def _mesh(self, line: MeshLine, unit: Unit) -> tuple[ir.Axis, ...]:
        report = self.gathered.report
        axes: dict[str, ir.Axis] = {}
        for axis in line.axes:
            name, place = axis.name.text, unit.source.place(axis.span)
            if name in axes:
                report(codes.REPEATED_AXIS, place, f"the mesh axis `{name}` is named twice", "remove one")
                continue
            if name in self.gathered.options:
                related = (Related(place=self.gathered.declared[name], message="the option"),)
                message = f"`{name}` is both an option and a mesh axis"
                report(codes.REPEATED_NAME, place, message, "rename the option", related=related)
            if axis.size == 0:
                report(codes.MESH_SIZE_CONFLICT, place, f"the mesh axis `{name}` has size 0", "give 1 or more")
            self._check_size(axis, place)
            axes[name] = ir.Axis(name=name, size=axis.size or None)
        return tuple(axes.values())

    def _check_size(self, axis: nodes.Axis, place: Place) -> None:
        report = self.gathered.report
        given = self.gathered.facts.sizes.get(axis.name.text)
        if given is not None and axis.size and given != axis.size:
            name = axis.name.text
            message = f"the plan is written for {name}={axis.size}, and {name}={given} is asked for"
            report(codes.MESH_SIZE_CONFLICT, place, message, f"remove `={axis.size}`, or use {name}={axis.size}")

    def _option(self, option: Option, unit: Unit) -> None:
        report = self.gathered.report
        name, place = option.name.text, unit.source.place(option.name.span)
        here = self.gathered.declared.get(name)
        if here and here.source is unit.source:
            related = (Related(place=here, message="first declared here"),)
            report(codes.REPEATED_NAME, place, f"the option `{name}` is declared twice", "remove one", related=related)
            return
        value = option.default.value
        if here and type(self.gathered.options[name]) is not type(value):
            related = (Related(place=here, message="declared here"),)
            message = f"the option `{name}` changes its type in the plan that extends it"
            report(codes.BAD_OPTION_VALUE, place, message, "keep the type", related=related)
            return
        self.gathered.options[name] = value
        self.gathered.declared[name] = place

    def set_options(self) -> None:
        report = self.gathered.report
        for name, given in self.gathered.facts.options.items():
            if name not in self.gathered.options:
                broken = {s.declares for unit in self.units for s in unit.file.statements if isinstance(s, Broken)}
                if name not in broken:
                    otherwise = (
                        f"its options are {', '.join(f'`{n}`' for n in self.gathered.options)}"
                        if self.gathered.options
                        else "it has none"
                    )
                    help_ = did_you_mean(name, self.gathered.options, otherwise)
                    report(codes.UNKNOWN_OPTION, None, f"the plan has no option `{name}`", help_)
                continue
            value = read_option(given, self.gathered.options[name])
            if isinstance(value, str) and not isinstance(self.gathered.options[name], str):
                related = (Related(place=self.gathered.declared[name], message="declared here"),)
                report(codes.BAD_OPTION_VALUE, None, f"the option `{name}` cannot be {value}", related=related)
            else:
                self.gathered.options[name] = value


def _identifier(name: str) -> str:
    stem = name.replace("\\", "/").rpartition("/")[2].partition(".")[0]
    return stem if stem.isidentifier() else "my_plan"
