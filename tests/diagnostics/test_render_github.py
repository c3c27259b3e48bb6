"""Workflow commands: exact text, and that nothing in a finding can end one or begin another."""

from hypothesis import given, settings
from hypothesis import strategies as st

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render.github import render
from planlang.source import Source, Span


def finding(name: str, text: str, start: int, end: int, **more) -> Finding:
    return Finding(code=codes.UNMATCHED_RULE, place=Source(name, text).place(Span(start, end)), **more)


def test_one_line():
    found = finding(
        "plans/a.plan", "for X\nlm_head", 6, 13, message="it: matches, no", notes=("50%",), help="try\nthis"
    )
    assert render([found]) == (
        "::error file=plans/a.plan,line=2,col=1,endLine=2,endColumn=8,title=PLN3001 unmatched-rule"
        "::it: matches, no%0Anote: 50%25%0Ahelp: try%0Athis"
    )


def test_several_lines_have_no_columns():
    found = finding("a.plan", "a {\n}\n", 2, 5, message="m")
    assert render([found]) == "::error file=a.plan,line=1,endLine=2,title=PLN3001 unmatched-rule::m"


def test_no_place_and_other_severities():
    found = [Finding(code=code, message="m") for code in (codes.NOT_TEXT, codes.UNUSED_LET, codes.IMPORTS_PLANLANG)]
    assert render(found) == (
        "::error title=PLN0002 not-text::m\n"
        "::warning title=PLN2014 unused-let::m\n"
        "::notice title=PLN7001 imports-planlang::m"
    )
    assert render([]) == ""


def test_escapes():
    found = finding("C:\\a,b%\n.plan", "", 0, 0, message="100%\r\n::error::\x1b[31m\r")
    assert render([found]) == (
        "::error file=C%3A\\a%2Cb%25\\n.plan,line=1,col=1,endLine=1,endColumn=1,title=PLN3001 unmatched-rule"
        "::100%25%0A::error::\\x1b[31m\\r"
    )


@settings(deadline=None)
@given(st.text(), st.text(max_size=50), st.integers(-5, 60), st.integers(-5, 60), st.text(st.characters(codec=None)))
def test_always_one_command(name, text, start, end, message):
    rendered = render([finding(name, text, start, end, message=message)])
    assert rendered.isprintable()
    properties = rendered.removeprefix("::error ").split("::")[0]
    assert [item.split("=")[0] for item in properties.split(",")] in (
        ["file", "line", "col", "endLine", "endColumn", "title"],
        ["file", "line", "endLine", "title"],
    )
