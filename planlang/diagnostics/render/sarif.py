"""The rendering for code scanning services: a SARIF 2.1.0 log.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render.common import inside, prose
from planlang.source import Place
from planlang.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(findings: Sequence[Finding], *, color: bool = False) -> str:
    """The findings as an indented log of one run, whose rules are the codes that occur, in order of number."""
    codes = sorted({finding.code for finding in findings}, key=lambda code: code.number)
    index = {code: number for number, code in enumerate(codes)}
    driver = {"name": "planlang", "version": __version__, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        # Said because many readers count UTF-16 code units unless told otherwise.
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, index[finding.code]) for finding in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.number,
        "name": code.name,
        "shortDescription": {"text": code.summary},
        "defaultConfiguration": {"level": code.severity.value},
    }


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    result = {
        "ruleId": finding.code.number,
        "ruleIndex": rule_index,
        # Our severities are SARIF's levels, word for word.
        "level": finding.severity.value,
        # SARIF has no field for a note or for help without an edit, so they follow the message as lines of
        # their own; a reader with little room shows the first.
        "message": {"text": prose(finding)},
        "locations": [_location(finding.place, finding.label)] if finding.place else [],
    }
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, **_location(related.place, related.message)}
            for number, related in enumerate(finding.related)
        ]
    return result


def _location(place: Place, message: str) -> dict[str, Any]:
    cut = inside(place)
    (start_line, start_column), (end_line, end_column) = cut.start, cut.end
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(place.source.name)},
            # As with us, the end column is the one behind the last character.
            "region": {
                "startLine": start_line,
                "startColumn": start_column,
                "endLine": end_line,
                "endColumn": end_column,
            },
        }
    }
    if message:
        location["message"] = {"text": message}
    return location


def _uri(name: str) -> str:
    """A file name as a URI reference: relative where the name is, with forward slashes, percent-encoded."""
    path = name.replace("\\", "/")
    # `C:/x` is absolute too; a drive would be read as a scheme unless the colon is encoded.
    drive = "/" if path[1:3] == ":/" else ""
    absolute = drive or path.startswith("/")
    return ("file://" if absolute else "") + quote(drive + path, safe="/", errors="replace")
