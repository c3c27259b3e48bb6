"""The SARIF log. Its output was checked once with the published schema (2.1.0-rtm.5); what that demands of the parts
that are written here is checked by `check_log`."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, Related
from planlang.diagnostics.render.sarif import render
from planlang.source import Source, Span
from planlang.version import __version__

SOURCE = Source("plans/a b.plan", 'plan "a"\nlm_head: colwise\n')
FOUND = Finding(
    code=codes.UNMATCHED_RULE,
    message="pattern `lm_head` matches no module",
    place=SOURCE.place(Span(9, 16)),
    label="matches nothing",
    related=(Related(place=SOURCE.place(Span(5, 8)), message="in this plan"),),
    notes=("a note",),
    help="did you mean `head`?",
)


def test_shape():
    log = json.loads(render([FOUND]))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run == {
        "tool": {
            "driver": {
                "name": "planlang",
                "version": __version__,
                "rules": [
                    {
                        "id": "PLN3001",
                        "name": "unmatched-rule",
                        "shortDescription": {"text": codes.UNMATCHED_RULE.summary},
                        "defaultConfiguration": {"level": "error"},
                    }
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            {
                "ruleId": "PLN3001",
                "ruleIndex": 0,
                "level": "error",
                "message": {"text": "pattern `lm_head` matches no module\nnote: a note\nhelp: did you mean `head`?"},
                "locations": [
                    {
                        "physicalLocation": {
                            "artifactLocation": {"uri": "plans/a%20b.plan"},
                            "region": {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 8},
                        },
                        "message": {"text": "matches nothing"},
                    }
                ],
                "relatedLocations": [
                    {
                        "id": 0,
                        "physicalLocation": {
                            "artifactLocation": {"uri": "plans/a%20b.plan"},
                            "region": {"startLine": 1, "startColumn": 6, "endLine": 1, "endColumn": 9},
                        },
                        "message": {"text": "in this plan"},
                    }
                ],
            }
        ],
    }


def test_rules_are_those_that_occur_once_each():
    found = [
        Finding(code=code, message="m")
        for code in (codes.UNUSED_LET, codes.NOT_TEXT, codes.UNUSED_LET, codes.IMPORTS_PLANLANG)
    ]
    (run,) = json.loads(render(found))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["PLN0002", "PLN2014", "PLN7001"]
    assert [result["ruleIndex"] for result in run["results"]] == [1, 0, 1, 2]
    assert [result["level"] for result in run["results"]] == ["warning", "error", "warning", "note"]
    assert all(result["locations"] == [] for result in run["results"])


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("a.plan", "a.plan"),
        ("../plans/a.plan", "../plans/a.plan"),
        ("plans\\a.plan", "plans/a.plan"),
        ("/home/me/a#1.plan", "file:///home/me/a%231.plan"),
        ("C:\\me\\a.plan", "file:///C%3A/me/a.plan"),
        ("层.plan", "%E5%B1%82.plan"),
        ("a:b%.plan", "a%3Ab%25.plan"),
        ("<stdin>", "%3Cstdin%3E"),
        ("plan qwen", "plan%20qwen"),
    ],
)
def test_uri(name, uri):
    found = Finding(code=codes.NOT_TEXT, message="m", place=Source(name, "").place(Span(0, 0)))
    (result,) = json.loads(render([found]))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


CODES = st.sampled_from(list(codes.CODES.values()))
OFFSETS = st.integers(-5, 60)


@settings(deadline=None)
@given(st.lists(CODES, max_size=5), st.text(max_size=50), OFFSETS, OFFSETS, st.text(st.characters(codec=None)))
def test_log_is_always_sound(chosen, text, start, end, message):
    place = Source(message, text).place(Span(start, end))
    related = (Related(place=place, message=message),)
    log = json.loads(render([Finding(code=code, message=message, place=place, related=related) for code in chosen]))
    check_log(log)
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == [code.number for code in chosen]


def check_log(log):
    """What the schema and the text of the standard demand of the parts that occur here."""
    assert log["$schema"].startswith("https://")
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert isinstance(result["message"]["text"], str)
        for location in (*result["locations"], *result["relatedLocations"]):
            physical = location["physicalLocation"]
            assert physical["artifactLocation"]["uri"].isascii()
            region = physical["region"]
            assert all(value >= 1 for value in region.values())
            assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])
