"""The JSON object: its exact shape, and that it can always be read back."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, Related
from planlang.diagnostics.render.json import render
from planlang.source import Source, Span

SOURCE = Source("plans\\a.plan", 'plan "a"\nlm_head: colwise\n')


def test_shape():
    found = Finding(
        code=codes.UNMATCHED_RULE,
        message="pattern `lm_head` matches no module",
        place=SOURCE.place(Span(9, 16)),
        label="matches nothing",
        related=(Related(place=SOURCE.place(Span(5, 9)), message="in this plan"),),
        notes=("a note",),
        help="help",
    )
    assert json.loads(render([found])) == {
        "version": 1,
        "errors": 1,
        "warnings": 0,
        "notes": 0,
        "findings": [
            {
                "code": "PLN3001",
                "name": "unmatched-rule",
                "severity": "error",
                "message": "pattern `lm_head` matches no module",
                "file": "plans\\a.plan",
                "start": {"line": 2, "column": 1},
                "end": {"line": 2, "column": 8},
                "label": "matches nothing",
                "related": [
                    {
                        "message": "in this plan",
                        "file": "plans\\a.plan",
                        "start": {"line": 1, "column": 6},
                        "end": {"line": 2, "column": 1},
                    }
                ],
                "notes": ["a note"],
                "help": "help",
            }
        ],
    }


def test_exact_text():
    found = Finding(code=codes.UNUSED_LET, message="\x1b 层")
    assert (
        render([found])
        == r"""{
  "version": 1,
  "errors": 0,
  "warnings": 1,
  "notes": 0,
  "findings": [
    {
      "code": "PLN2014",
      "name": "unused-let",
      "severity": "warning",
      "message": "\u001b \u5c42",
      "file": null,
      "start": null,
      "end": null,
      "label": "",
      "related": [],
      "notes": [],
      "help": ""
    }
  ]
}"""
    )


def test_no_finding_is_still_an_object():
    assert json.loads(render([])) == {"version": 1, "errors": 0, "warnings": 0, "notes": 0, "findings": []}


CODES = st.sampled_from(list(codes.CODES.values()))


@settings(deadline=None)
@given(st.lists(CODES, max_size=5), st.text(max_size=50), st.integers(-5, 60), st.integers(-5, 60), st.text())
def test_counts_agree_and_text_survives(chosen, text, start, end, message):
    place = Source("x", text).place(Span(start, end))
    log = json.loads(render([Finding(code=code, message=message, place=place) for code in chosen]))
    assert [log["errors"], log["warnings"], log["notes"]] == [
        sum(code.severity == severity for code in chosen) for severity in codes.Severity
    ]
    assert [found["code"] for found in log["findings"]] == [code.number for code in chosen]
    assert all(found["message"] == message for found in log["findings"])
