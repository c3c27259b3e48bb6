"""The full rendering, as exact text: typical findings first, then what a hostile or unusual plan does to it."""

import re
from textwrap import dedent

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, Related
from planlang.diagnostics.render.full import render
from planlang.source import Place, Source, Span

PLAN = Source(
    "plans/a.plan",
    dedent("""\
        plan "a"
        for Qwen3ForCausalLM

        layers.*.self_attn.q_proj: colwise
        layers.*.mlp.up_proj: colwise

        layers.*.mlp.*: rowwise
        layers.0 {
          a: colwise
          b: colwise

          c: colwise
        }
        lm_head: colwise
        """),
)
BASE = Source("plans/base.plan", 'plan "base"\nlayers.*.mlp.*: colwise\n')


def at(source: Source, words: str) -> Place:
    start = source.text.index(words)
    return source.place(Span(start, start + len(words)))


def finding(place: Place | None, label: str = "here", **more) -> Finding:
    return Finding(**{"code": codes.UNMATCHED_RULE, "message": "it is wrong", "place": place, "label": label} | more)


def frame(text: str, start: int, end: int, label: str = "here") -> list[str]:
    """The lines of the frame of a finding in `text`, without its header and its bars."""
    return render([finding(Source("x", text).place(Span(start, end)), label)]).split("\n")[3:]


def expect(text: str) -> str:
    return dedent(text).strip("\n")


def test_one_place_with_notes_and_help():
    found = finding(
        at(PLAN, "layers.*.self_attn.q_proj"),
        "matches nothing",
        message="pattern `layers.*.self_attn.q_proj` matches no module",
        notes=("the model has 28 layers", "two\nlines"),
        help="did you mean `model.layers`?",
    )
    assert render([found]) == expect("""
        error[PLN3001]: pattern `layers.*.self_attn.q_proj` matches no module
         --> plans/a.plan:4:1
          |
        4 | layers.*.self_attn.q_proj: colwise
          | ^^^^^^^^^^^^^^^^^^^^^^^^^ matches nothing
          |
          = note: the model has 28 layers
          = note: two
                  lines
          = help: did you mean `model.layers`?
    """)


def test_no_place():
    found = finding(None, code=codes.UNREADABLE_FILE, notes=("it is a folder",), help="name a file")
    assert render([found]) == expect("""
        error[PLN0001]: it is wrong
          = note: it is a folder
          = help: name a file
    """)


def test_related_places_in_line_order_and_in_another_file():
    found = finding(
        at(PLAN, "layers.*.mlp.*"),
        "reaches it again",
        related=(
            Related(place=at(BASE, "layers.*.mlp.*"), message="and this one extends"),
            Related(place=at(PLAN, "layers.*.mlp.up_proj"), message="the first rule"),
            Related(place=at(PLAN, '"a"'), message="in this plan"),
        ),
        help="write `override`",
    )
    assert render([found]) == expect("""
        error[PLN3001]: it is wrong
         --> plans/a.plan:7:1
          |
        1 | plan "a"
          |      --- in this plan
        ...
        5 | layers.*.mlp.up_proj: colwise
          | -------------------- the first rule
        6 |
        7 | layers.*.mlp.*: rowwise
          | ^^^^^^^^^^^^^^ reaches it again
          |
         ::: plans/base.plan:2:1
          |
        2 | layers.*.mlp.*: colwise
          | -------------- and this one extends
          |
          = help: write `override`
    """)


def test_related_on_the_same_line_and_none_primary():
    related = (
        Related(place=at(PLAN, ".q_proj"), message="second"),
        Related(place=at(PLAN, "layers"), message="first"),
    )
    assert render([finding(None, related=related)]) == expect("""
        error[PLN3001]: it is wrong
         --> plans/a.plan:4:19
          |
        4 | layers.*.self_attn.q_proj: colwise
          | ------ first
          |                   ------- second
    """)


def test_severities_and_the_line_between():
    first = finding(at(PLAN, "for"), "", code=codes.UNUSED_LET)
    second = finding(None, "", code=codes.IMPORTS_PLANLANG)
    assert render([first, second]) == expect("""
        warning[PLN2014]: it is wrong
         --> plans/a.plan:2:1
          |
        2 | for Qwen3ForCausalLM
          | ^^^

        note[PLN7001]: it is wrong
    """)
    assert render([]) == ""


def test_span_over_few_lines_marks_each_that_has_text():
    found = finding(at(PLAN, "  b: colwise\n\n  c: colwise\n"))
    assert render([found]) == expect("""
        error[PLN3001]: it is wrong
          --> plans/a.plan:10:1
           |
        10 |   b: colwise
           | ^^^^^^^^^^^^
        11 |
        12 |   c: colwise
           |   ^^^^^^^^^^ here
    """)


def test_span_over_many_lines_marks_its_ends():
    block = PLAN.text[PLAN.text.index("{") : PLAN.text.index("}") + 1]
    assert render([finding(at(PLAN, block))]) == expect("""
        error[PLN3001]: it is wrong
          --> plans/a.plan:8:10
           |
         8 | layers.0 {
           |          ^
        ...
        13 | }
           | ^ here
    """)


@pytest.mark.parametrize(
    ("text", "start", "end", "expected"),
    [
        pytest.param("ab\n", 1, 1, ["1 | ab", "  |  ^ here"], id="zero width"),
        pytest.param("ab\n", 2, 2, ["1 | ab", "  |   ^ here"], id="at a line end"),
        pytest.param("ab\n", 2, 3, ["1 | ab", "  |   ^ here"], id="the line end itself"),
        pytest.param("ab\r\n", 3, 4, ["1 | ab", "  |   ^ here"], id="a windows line end"),
        pytest.param("ab\ncd", 0, 3, ["1 | ab", "  | ^^ here"], id="up to the next line"),
        pytest.param("ab\n", 3, 3, ["2 |", "  | ^ here"], id="end of file"),
        pytest.param("ab", 2, 2, ["1 | ab", "  |   ^ here"], id="end of file without a line end"),
        pytest.param("ab", 7, 9, ["1 | ab", "  |   ^ here"], id="behind the end"),
        pytest.param("ab", -3, 1, ["1 | ab", "  | ^ here"], id="before the start"),
        pytest.param("ab", 1, 0, ["1 | ab", "  |  ^ here"], id="backwards"),
        pytest.param("", 0, 0, ["1 |", "  | ^ here"], id="empty file"),
        pytest.param("\ta\tb", 1, 4, ["1 |     a    b", "  |     ^^^^^^ here"], id="tabs"),
        pytest.param("层 = 层数", 4, 6, ["1 | 层 = 层数", "  |      ^^^^ here"], id="wide"),
        pytest.param("e\u0301e\u0301x", 4, 5, ["1 | e\u0301e\u0301x", "  |   ^ here"], id="combining before"),
        pytest.param("e\u0301x", 1, 2, ["1 | e\u0301x", "  |  ^ here"], id="only a combining one"),
        pytest.param("a\x1b[2Jb", 5, 6, [r"1 | a\x1b[2Jb", "  |         ^ here"], id="escape sequence"),
        pytest.param("\u202ea\u200b", 1, 2, [r"1 | \u202ea\u200b", "  |       ^ here"], id="hidden characters"),
        pytest.param("a\rb\xa0\ud800", 2, 3, [r"1 | a\rb\xa0\ud800", "  |    ^ here"], id="other odd ones"),
    ],
)
def test_hard_lines(text, start, end, expected):
    assert frame(text, start, end) == expected


def test_long_line_is_cut_around_the_mark():
    text = "x" * 60_000 + "BAD" + "y" * 40_000
    assert frame(text, 60_000, 60_003) == [
        f"1 | ...{'x' * 40}BAD{'y' * 77}...",
        f"  |    {' ' * 40}^^^ here",
    ]
    assert frame(text, 0, 3)[0] == f"1 | {'x' * 120}..."
    assert frame(text, len(text), len(text)) == [f"1 | ...{'y' * 120}", f"  |    {' ' * 120}^ here"]
    assert frame(text, 0, len(text))[1] == f"  | {'^' * 120} here"
    assert frame("z" * 120, 60, 61)[0] == f"1 | {'z' * 120}"


def test_long_line_of_accents_is_cut_too():
    assert len(frame("e" + "\u0301" * 100_000, 0, 1)[0]) < 160


def test_long_line_stands_again_for_a_mark_that_the_cut_left_out():
    source = Source("x", "a" * 1000 + "FIRST" + "b" * 1000 + "SECOND" + "c" * 1000)
    related = (Related(place=at(source, "FIRST"), message="the one"),)
    lines = render([finding(at(source, "SECOND"), related=related)]).split("\n")[3:]
    # Runs of one character, the padding and the long underlines among them, say nothing here.
    assert [re.sub(r"(.)\1{5,}", "", line) for line in lines] == [
        "1 | ...FIRST...",
        "  |----- the one",
        "1 | ...SECOND...",
        "  | here",
    ]
    assert all(len(line) < 160 for line in lines)


def test_long_line_stands_once_for_marks_near_each_other():
    source = Source("x", "a" * 1000 + "FIRST SECOND" + "c" * 1000)
    related = (Related(place=at(source, "FIRST"), message="the one"),)
    assert render([finding(at(source, "SECOND"), related=related)]).split("\n")[3:] == [
        f"1 | ...{'a' * 40}FIRST SECOND{'c' * 68}...",
        f"  |    {' ' * 40}----- the one",
        f"  |    {' ' * 46}^^^^^^ here",
    ]


def test_messages_cannot_act_on_the_terminal():
    place = Source("a\n\x1b[31m.plan", "x").place(Span(0, 1))
    found = finding(
        place,
        "two\nlines \x07",
        message="is \x1b]0;bad\x07\r\nand more",
        related=(Related(place=place, message="\x1b[0m"),),
        notes=("\u2028\x85",),
        help="\x9b1m",
    )
    assert render([found]) == expect(r"""
        error[PLN3001]: is \x1b]0;bad\x07
                        and more
         --> a\n\x1b[31m.plan:1:1
          |
        1 | x
          | ^ two lines \x07
          | - \x1b[0m
          |
          = note: \u2028\x85
          = help: \x9b1m
    """)


def test_color_changes_nothing_but_the_color():
    related = (Related(place=at(BASE, "layers"), message="there"),)
    found = [
        finding(at(PLAN, "for"), related=related, notes=("n",), help="h"),
        finding(None, code=codes.UNUSED_LET),
    ]
    colored = render(found, color=True)
    assert click.unstyle(colored) == render(found)
    assert click.style("error[PLN3001]", fg="red", bold=True) in colored
    assert click.style("warning[PLN2014]", fg="yellow", bold=True) in colored
    assert click.style("note:", fg="cyan", bold=True) in colored
    assert click.style("^^^ here", fg="red", bold=True) in colored


OFFSETS = st.integers(-5, 60)
TEXTS = st.text(st.characters(codec=None) | st.sampled_from("\n\r\t \x1b层\u0301"), max_size=50)


@settings(deadline=None)
@given(TEXTS, st.lists(st.tuples(OFFSETS, OFFSETS), min_size=1, max_size=4), TEXTS, st.booleans())
def test_never_raises_and_prints_nothing_that_acts(text, spans, message, color):
    source = Source("x", text)
    primary, *others = (source.place(Span(start, end)) for start, end in spans)
    related = tuple(Related(place=place, message=message) for place in others)
    found = finding(primary, message, message=message, related=related, notes=(message,), help=message)
    rendered = render([found], color=color)
    assert all(line.isprintable() for line in click.unstyle(rendered).split("\n"))
    assert click.unstyle(rendered) == render([found])


ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.just("\n"), max_size=120)


@settings(deadline=None)
@given(ASCII, st.data())
def test_caret_stands_under_the_start(text, data):
    start = data.draw(st.integers(0, len(text)))
    source = Source("x", text)
    line, column = source.position(start)
    source_row, mark_row = marked_rows(source, start, data.draw(st.integers(start, len(text))), line)
    assert mark_row.index("^") - source_row.index("|") - 2 == column - 1


@settings(deadline=None)
@given(st.integers(121, 2000), st.data())
def test_caret_stands_under_the_start_of_a_long_line(size, data):
    start = data.draw(st.integers(0, size - 1))
    # No two characters within the width of a frame are alike.
    source = Source("x", "".join(chr(0x100 + index % 200) for index in range(size)))
    source_row, mark_row = marked_rows(source, start, data.draw(st.integers(start, size)), 1)
    assert source_row[mark_row.index("^")] == source.text[start]
    assert max(len(source_row), len(mark_row)) < 160


def marked_rows(source: Source, start: int, end: int, line: int) -> tuple[str, str]:
    """The row of source line `line` and the row under it, where `[start, end)` is marked."""
    rows = render([finding(source.place(Span(start, end)))]).split("\n")
    number = next(index for index, row in enumerate(rows) if re.match(rf" *{line} \|", row))
    return rows[number], rows[number + 1]
