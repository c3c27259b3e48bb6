"""The rendering for programs: one JSON object with all that the findings hold.

    {"version": 1, "errors": 1, "warnings": 0, "notes": 0, "findings": [{"code": "PLN3001", ...}]}

`version` changes when a field is removed or means something else, not when one is added. Lines and columns count from
1, a column counts characters, and `end` is the position behind the last one. What has no place has `null` for `file`,
`start` and `end`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render.common import inside
from planlang.source import Place

VERSION = 1


def render(findings: Sequence[Finding], *, color: bool = False) -> str:
    """The findings as an indented JSON object, in ASCII so that no terminal and no encoding can spoil it."""
    counts = Counter(finding.severity for finding in findings)
    log = {
        "version": VERSION,
        "errors": counts[Severity.ERROR],
        "warnings": counts[Severity.WARNING],
        "notes": counts[Severity.NOTE],
        "findings": [_finding(finding) for finding in findings],
    }
    return json.dumps(log, indent=2)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.number,
        "name": finding.code.name,
        "severity": finding.severity.value,
        "message": finding.message,
        **_place(finding.place),
        "label": finding.label,
        "related": [{"message": related.message, **_place(related.place)} for related in finding.related],
        "notes": list(finding.notes),
        "help": finding.help,
    }


def _place(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {"file": None, "start": None, "end": None}
    cut = inside(place)
    return {"file": place.source.name, "start": _position(cut.start), "end": _position(cut.end)}


def _position(position: tuple[int, int]) -> dict[str, int]:
    line, column = position
    return {"line": line, "column": column}
