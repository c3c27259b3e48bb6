"""The rendering of one line a finding, for editors, `grep` and agents: `path:line:col: PLN3001 message`."""

from __future__ import annotations

from collections.abc import Sequence

from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render.common import Paint, inside, one_line, painter, shown


def render(findings: Sequence[Finding], *, color: bool = False) -> str:
    """One line for each finding; the program's name stands where there is no place."""
    paint = painter(color)
    return "\n".join(_line(finding, paint) for finding in findings)


def _line(finding: Finding, paint: Paint) -> str:
    where = shown(str(inside(finding.place))) if finding.place else "planlang"
    code = paint(finding.code.number, finding.severity)
    return f"{paint(where, 'strong')}: {code} {one_line(finding.message)}"
