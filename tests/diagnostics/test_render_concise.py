"""One line a finding, whatever stands in it."""

import click
from hypothesis import given, settings
from hypothesis import strategies as st

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render.concise import render
from planlang.source import Source, Span

SOURCE = Source("plans/a.plan", 'plan "a"\nlm_head: colwise\n')
MATCHES_NOTHING = Finding(
    code=codes.UNMATCHED_RULE,
    message="pattern `lm_head` matches no module",
    place=SOURCE.place(Span(9, 16)),
    label="not shown",
    notes=("not shown",),
    help="not shown",
)
NO_FILE = Finding(code=codes.UNREADABLE_FILE, message="`b.plan` is missing")


def test_one_line_each():
    assert render([NO_FILE, MATCHES_NOTHING]) == (
        "planlang: PLN0001 `b.plan` is missing\nplans/a.plan:2:1: PLN3001 pattern `lm_head` matches no module"
    )
    assert render([]) == ""


def test_line_ends_are_folded_and_controls_shown():
    place = Source("a\n\x1b.plan", "xy").place(Span(1, 99))
    found = Finding(code=codes.TORCH_REFUSED, message="torch said:\r\n  no\n\n\x1b[31m", place=place)
    assert render([found]) == r"a\n\x1b.plan:1:2: PLN7005 torch said: no \x1b[31m"


def test_color_changes_nothing_but_the_color():
    colored = render([MATCHES_NOTHING, NO_FILE], color=True)
    assert click.unstyle(colored) == render([MATCHES_NOTHING, NO_FILE])
    assert click.style("PLN3001", fg="red", bold=True) in colored


@settings(deadline=None)
@given(st.text(max_size=50), st.integers(-5, 60), st.integers(-5, 60), st.text(max_size=50))
def test_always_one_printable_line(text, start, end, message):
    place = Source("x", text).place(Span(start, end))
    assert render([Finding(code=codes.NOT_TEXT, message=message, place=place)]).isprintable()
