"""The rendering for a GitHub workflow: one command a finding, which the runner turns into an annotation.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Sequence

from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render.common import inside, lines, prose, shown
from planlang.source import Place

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}

# What the runner decodes: the percent sign and line ends everywhere, in a property also what would end it.
_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def render(findings: Sequence[Finding], *, color: bool = False) -> str:
    """One workflow command for each finding."""
    return "\n".join(map(_command, findings))


def _command(finding: Finding) -> str:
    properties = _place(finding.place) if finding.place else {}
    properties["title"] = f"{finding.code.number} {finding.code.name}"
    listed = ",".join(f"{key}={value.translate(_IN_PROPERTY)}" for key, value in properties.items())
    message = "\n".join(lines(prose(finding)))
    return f"::{_COMMANDS[finding.severity]} {listed}::{message.translate(_IN_MESSAGE)}"


def _place(place: Place) -> dict[str, str]:
    cut = inside(place)
    (line, column), (end_line, end_column) = cut.start, cut.end
    found = {"file": shown(place.source.name), "line": str(line)}
    if line == end_line:
        found |= {"col": str(column), "endLine": str(end_line), "endColumn": str(end_column)}
    else:
        # An annotation over several lines may have no columns: the check-run interface refuses them.
        found |= {"endLine": str(end_line)}
    return found
