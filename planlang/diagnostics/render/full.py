"""The rendering for people: each finding with the source lines that it is about.

error[PLN3003]: two rules reach `model.layers.0.mlp.up_proj`
 --> a.plan:4:3
  |
2 |   layers.*.mlp.up_proj: colwise
  |   -------------------- the first rule
3 |
4 |   layers.*.mlp.*: colwise
  |   ^^^^^^^^^^^^^^ reaches it again
  |
  = help: write `override` before the second

Related places in other files follow in blocks of their own, each under `::: other.plan:3:1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render.common import Paint, inside, lines, painter, shown
from planlang.diagnostics.render.frame import Mark, Stroke, frame, strokes
from planlang.source import Source


def render(findings: Sequence[Finding], *, color: bool = False) -> str:
    """The findings one under another, with an empty line between."""
    paint = painter(color)
    return "\n\n".join("\n".join(_finding(finding, paint)) for finding in findings)


def _finding(finding: Finding, paint: Paint) -> Iterator[str]:
    title = f"{finding.severity}[{finding.code.number}]"
    first, *more = lines(finding.message)
    yield paint(title, finding.severity) + paint(f": {first}", "strong")
    for line in more:
        yield " " * (len(title) + 2) + paint(line, "strong")

    # Both the files and the strokes in them keep the order of the marks, so the first stroke in a file is the one to
    # name it by: the primary one in its own file.
    files: dict[Source, list[Stroke]] = {}
    for mark in _marks(finding):
        files.setdefault(mark.place.source, []).extend(strokes(mark))
    gutter = len(str(max((stroke.number for found in files.values() for stroke in found), default=0)))
    bar = paint(" " * gutter + " |", "gutter")

    for number, (source, found) in enumerate(files.items()):
        if number > 0:
            yield bar
        arrow = paint(":::" if number > 0 else "-->", "gutter")
        yield f"{' ' * gutter}{arrow} {shown(str(inside(found[0].mark.place)))}"
        yield from frame(source, found, gutter, paint)

    remarks = [("note", note) for note in finding.notes]
    if finding.help:
        remarks.append(("help", finding.help))
    if files and remarks:
        yield bar
    for role, text in remarks:
        yield from _remark(role, text, gutter, paint)


def _marks(finding: Finding) -> Iterator[Mark]:
    """The primary place first, then the related ones in their order."""
    if finding.place is not None:
        yield Mark(finding.place, finding.label, finding.severity, "^")
    for related in finding.related:
        yield Mark(related.place, related.message, "related", "-")


def _remark(role: str, text: str, gutter: int, paint: Paint) -> Iterator[str]:
    """A note or the help, with its further lines under its first."""
    first, *more = lines(text)
    yield f"{' ' * gutter} {paint('=', 'gutter')} {paint(f'{role}:', role)} {first}"
    for line in more:
        yield f"{' ' * (gutter + 3 + len(role) + 2)}{line}"
