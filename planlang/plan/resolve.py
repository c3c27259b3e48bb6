"""From the files of a plan to the resolved plan: options, conditions, names and inheritance are decided here."""

from __future__ import annotations

from planlang.diagnostics.finding import Finding
from planlang.plan import ir
from planlang.plan.files import Program
from planlang.plan.gathered import Facts, Gathered
from planlang.plan.header import Header
from planlang.plan.statements import FileReader
from planlang.syntax.nodes import PlanLine

__all__ = ["Facts", "resolve"]


def resolve(program: Program, facts: Facts) -> tuple[ir.Plan | None, tuple[Finding, ...]]:
    """The resolved plan, and what is wrong with the files.

    There is no plan only where the file has no usable `plan` line; with other mistakes the plan lacks what they spoil.
    """
    gathered = Gathered(facts)
    header = Header(program.units, gathered)
    for unit in reversed(program.units):  # what is extended comes first, so that the plan itself has the last word
        header.read(unit)
    header.set_options()
    for level, unit in reversed(list(enumerate(program.units))):
        FileReader(gathered, unit, level).read()
    return _plan(program, gathered), tuple(gathered.findings)


def _plan(program: Program, gathered: Gathered) -> ir.Plan | None:
    own = program.units[0]
    line = next((s for s in own.file.statements if isinstance(s, PlanLine)), None)
    if line is None:
        return None
    return ir.Plan(
        name=line.name.text,
        classes=tuple(name.text for name in line.classes),
        description=line.comments.above,
        mesh=gathered.mesh,
        options=tuple(gathered.options.items()),
        decided=ir.Decided(sizes=tuple(gathered.sizes.items()), config=tuple(gathered.config.items())),
        entries=tuple(gathered.entries),
        place=own.source.place(line.span),
        class_places=tuple(own.source.place(name.span) for name in line.classes),
    )
