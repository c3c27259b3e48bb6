"""What the parser makes of texts with mistakes: findings, one for each, and never an exception."""

import random
import re

import pytest

from planlang import resources
from planlang.diagnostics.finding import Finding
from planlang.source import Source
from planlang.syntax.nodes import AnyStatement, Broken
from planlang.syntax.parser import _Reader, lark, parse
from planlang.syntax.printer import KEYWORDS

PLANS = {name: path.read_text(encoding="utf-8") for name, path in resources.bundled_plans().items()}
SOUP = [
    *sorted(KEYWORDS),
    *"(){}:=,?.*-+%<>\"'#[]",
    *("->", "==", "//", "**", "*.", "{0..3}", "{-4..-1}", "{a,b}", '"x"', "config.x", "colwise", "shard(-1)", "tp"),
    *("when tp {\n", "\n", "\n", "} else {\n", "}\n", "a.b:", " ", " ", "  ", "# note\n", "\r\n", "\t", "12", "é", "0"),
]


def checked(text: str) -> tuple[Finding, ...]:
    """The findings, after what holds for every text."""
    source = Source("test", text)
    file, findings = parse(source)
    for finding in findings:
        assert finding.place is not None
        assert finding.place.source is source
        assert 0 <= finding.place.span.start <= finding.place.span.end <= len(text)
        assert finding.message
    for statement in file.statements:
        assert 0 <= statement.span.start <= statement.span.end <= len(text)
    broken = any(isinstance(statement, Broken) for statement in file.statements)
    assert broken == bool(findings)
    if not findings:
        assert split(text) == file.statements
    return findings


def split(text: str) -> tuple[AnyStatement, ...]:
    """The statements of a sound text, each parsed by itself."""
    reader = _Reader(Source("test", text))
    statements = tuple(reader.statements(0, len(text)))
    assert reader.findings == []
    return statements


def mistakes(text: str) -> list[str]:
    """Code and line of each finding."""
    found = []
    for finding in checked(text):
        assert finding.place is not None
        found.append(f"{finding.code.name} {finding.place.start[0]}")
    return found


def test_random_characters() -> None:
    pick = random.Random(1)
    some = "abp:=(){}\"'*.,#\n\n \t\r\f\v\0-<>!?0129é٣\u2028\ufeff\u0301\U0001f600\ud800"
    for _ in range(700):
        checked("".join(pick.choices(some, k=pick.randrange(60))))


def test_token_soup() -> None:
    pick = random.Random(2)
    for _ in range(700):
        checked(pick.choice(["", " "]).join(pick.choices(SOUP, k=pick.randrange(40))))


def test_mutated_plans() -> None:
    pick = random.Random(3)
    texts = list(PLANS.values())
    for _ in range(600):
        text = pick.choice(texts)
        for _ in range(pick.randrange(1, 4)):
            at = pick.randrange(len(text) + 1)
            match pick.randrange(4):
                case 0:
                    text = text[:at] + text[at + pick.randrange(1, 30) :]
                case 1:
                    text = text[:at] + pick.choice(SOUP) + text[at:]
                case 2:
                    text = text[:at] + chr(pick.randrange(0x250)) + text[at + 1 :]
                case _:
                    other = pick.randrange(len(text) + 1)
                    text = text[:at] + text[other : other + 40] + text[at:]
        checked(text)


@pytest.mark.parametrize("name", PLANS)
def test_plans_cut_at_every_token(name: str) -> None:
    text = PLANS[name]
    assert mistakes(text) == []
    tokens = list(lark().parse_interactive(text, start="file").iter_parse())
    for at in sorted({at for token in tokens for at in (token.start_pos, token.end_pos)}):
        assert len(checked(text[:at])) <= 1, text[:at][-60:]


@pytest.mark.parametrize("name", PLANS)
def test_plans_without_one_token(name: str) -> None:
    text = PLANS[name]
    for token in list(lark().parse_interactive(text, start="file").iter_parse()):
        if token.type not in ("_NL", "RBRACE"):
            assert len(checked(text[: token.start_pos] + text[token.end_pos :])) <= 1, str(token)


PLAN = "plan p for Q\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n\n# nothing\n", []),
        # one mistake, one finding
        ("a colwise\nb: c\n", ["unexpected-text 1"]),
        ("a.b colwise\nb: c\n", ["unexpected-text 1"]),
        ("a: colwise(\nb: c\nd: e\n", ["unclosed-bracket 1"]),
        ("a: prepare(in=(x -> y, none\nb: c\n", ["unclosed-bracket 1"]),
        ("a: prepare(in={x: y\nb: c\n", ["unclosed-bracket 1"]),
        ("a: colwise(\n", ["unclosed-bracket 1"]),
        ("mesh (dp, tp\na: b\n", ["unclosed-bracket 1"]),
        ('extends "qwen\na: b\n', ["unclosed-string 1"]),
        ('a: custom "x:Y(b=1)\nb: c\n', ["unclosed-string 1"]),
        ('a: b(c="d)\ne: f\n', ["unclosed-string 1"]),
        ('a: b(c="d)\ne f\n', ["unclosed-string 1"]),
        ('a: b(c="d, e=1,\n  f=2)\ng h\n', ["unclosed-string 1", "unknown-statement 3"]),
        ("mseh tp\na: b\n", ["unknown-statement 1"]),
        ("rule a: b\na: b\n", ["unknown-statement 1"]),
        ("a..b: c\nb: c\n", ["bad-pattern 1"]),
        ("a.: c\nb: c\n", ["bad-pattern 1"]),
        ("***: c\nb: c\n", ["bad-pattern 1"]),
        ("a**b: c\n", ["bad-pattern 1"]),
        ("a.{0..3: c\nb: c\n", ["unclosed-bracket 1"]),
        ("a.{3..0}: c\n", ["bad-pattern 1"]),
        ("a.{0..3..0}: c\n", ["bad-pattern 1"]),
        ("a.{b.c}: d\n", ["bad-pattern 1"]),
        ("a.{b-c}: d\n", ["bad-pattern 1"]),
        ("a.{0..999999}: d\n", ["range-too-large 1"]),
        ("a??: c\n", ["bad-pattern 1"]),
        ("a except (b?): c\n", ["bad-pattern 1"]),
        ("a = colwise\nb: c\n", ["unexpected-text 1"]),
        ("a: colwise(in: replicate)\nb: c\n", ["unexpected-text 1"]),
        ("let a: colwise\nb: c\n", ["unexpected-text 1"]),
        ("option a: 1\nb: c\n", ["unexpected-text 1"]),
        ("expect a in=b\nb: c\n", ["unexpected-text 1"]),
        ("expect a: in:b\nb: c\n", ["unexpected-text 1"]),
        ("a: b c\nd: e\n", ["unexpected-text 1"]),
        ("a: colwise(x=1 y=2)\nd: e\n", ["unexpected-text 1"]),
        ("a: b)\nd: e\n", ["unclosed-bracket 1"]),
        ("a: b}\nd: e\n", ["unclosed-bracket 1"]),
        ("}\nd: e\n", ["unclosed-bracket 1"]),
        ("a: b(c))\nd: e\n", ["unclosed-bracket 1"]),
        ("a: b[1]\nd: e\n", ["unexpected-text 1"]),
        ("a: b('x')\nd: e\n", ["unexpected-text 1"]),
        ("a: b(x=99999999999999999999)\n", ["number-too-large 1"]),
        ("plan p\nd: e\n", ["unexpected-text 1"]),
        ("plan for Q\nd: e\n", ["unexpected-text 1"]),
        ('require tp = 2 "x"\nd: e\n', ["unexpected-text 1"]),
        ("require tp == 2\nd: e\n", ["unexpected-text 1"]),
        ('require (tp == 2 "x"\nd: e\n', ["unclosed-bracket 1"]),
        ('require 1 < tp < 9 "x"\nd: e\n', ["unexpected-text 1"]),
        ("when tp == 2\nd: e\n", ["unexpected-text 1"]),
        # blocks
        ("when tp == 2 {\n  a: b\n", ["unclosed-bracket 1"]),
        ("when tp == 2 {\n  a: b\n} else {\n  c: d\n", ["unclosed-bracket 3"]),
        ("when tp = 2 {\n  a: b\n}\nc: d\n", ["unexpected-text 1"]),
        ("when tp = 2 {\n  a: b\n} else when x {\n c: d\n} else {\n e: f\n}\nc: d\n", ["unexpected-text 1"]),
        ("when x {\n  a: b\n} else when tp = 2 {\n c: d\n} else {\n e: f\n}\nc: d\n", ["unexpected-text 3"]),
        ("when x {\n  a: b\n} else when y {\n c: d\n} else {\n e skip\n}\nc: d\n", ["unexpected-text 6"]),
        (
            "when x {\n  a skip\n} else when y {\n c skip\n} else {\n e skip\n}\nc skip\n",
            [f"unexpected-text {n}" for n in (2, 4, 6, 8)],
        ),
        ("when x {\n  when y {\n    a skip\n  }\n  c skip\n}\n", ["unexpected-text 3", "unexpected-text 5"]),
        ("when x {\n  when y {\n    a: b(\n  }\n  c skip\n}\n", ["unclosed-bracket 3", "unexpected-text 5"]),
        ("when x {\n  a: b\n}\nelse {\n  c: d\n}\ne: f\n", ["unexpected-text 4"]),
        ("when x {\n  a: b\n}\nelse when y {\n  c: d\n}\ne: f\n", ["unexpected-text 4"]),
        ("when x {\n  a: b\n} c: d\ne: f\n", ["unexpected-text 3"]),
        ("when x {\n  a skip  # like `when y {\n  # and {\n}\nc: d\n", ["unexpected-text 2"]),
        ('when x == "{" {\n  a skip\n}\nc: d\n', ["unexpected-text 2"]),
        ("when x {\n  a: b}\n}\nc: d\n", ["unclosed-bracket 3"]),
        ("when x {\n  a: b\n}\n}\nc: d\n", ["unclosed-bracket 4"]),
        ("when x { a: b }\nc skip\n", ["unexpected-text 2"]),
        ("when (x {\n  a: b\n}\nc: d\n", ["unclosed-bracket 1"]),
        ("when x\n{\n  a: b\n}\nc: d\n", ["unexpected-text 2"]),
        ("when x\n\n# y\n  {\n  a skip\n}\nc: d\n", ["unexpected-text 4", "unexpected-text 5"]),
        ("when z {\nwhen x\n{\n  a: b\n}\n}\nc: d\n", ["unexpected-text 3"]),
        # line ends and blanks
        ("a colwise\r\nb skip\r\nd: e\r\n", ["unexpected-text 1", "unexpected-text 2"]),
        ("when x {\r\n  a skip\r\n} else {\r\n  c: (\r\n}\r\n", ["unexpected-text 2", "unclosed-bracket 4"]),
        ("a:\tb\n\tc\tskip\n", ["unexpected-text 2"]),
        ("a: b\nc skip", ["unexpected-text 2"]),
        ("a: b\nc:", ["unexpected-text 2"]),
        ("a: b(", ["unclosed-bracket 1"]),
        ('a: b("', ["unclosed-string 1"]),
        ("\ufeffa: b\nc: d\n", ["unexpected-text 1"]),
        ("a: b\u2028c: d\n", ["unexpected-text 1"]),
        ("a: b\rc: d\n", ["unexpected-text 1"]),
        ("a" * 9_000 + "\nb: c\n", ["unexpected-text 1"]),
        ("a" * 100_000 + "\nb: c\n", ["bad-pattern 1"]),
        ("a: b(" + "x, " * 10_000 + ")\nc skip\n", ["unexpected-text 2"]),
        ("a: b(" + "x, " * 10_000 + "\nc: d\ne skip\n", ["unclosed-bracket 1", "unexpected-text 3"]),
    ],
)
def test_findings(text: str, expected: list[str]) -> None:
    assert mistakes(text) == expected
    if text.startswith(("plan", "\ufeff")):
        return
    below = [f"{name} {int(line) + 1}" for name, line in map(str.split, expected)]
    assert mistakes(PLAN + text) == below


TEN = """\
plan p for Q, 3
mseh tp
option big = maybe
let out = = colwise
model.embed_tokens rowwise
*..o_proj: colwise
*.mlp.down: colwise)
*.mlp.up: colwise(local=true
extends "qwen
when tp = 4 {
  a: b
}
lm_head: colwise(out=shard(-1))
"""


def test_ten_mistakes_are_ten_findings() -> None:
    assert mistakes(TEN) == [
        "unexpected-text 1",
        "unknown-statement 2",
        "unexpected-text 3",
        "unexpected-text 4",
        "unexpected-text 5",
        "bad-pattern 6",
        "unclosed-bracket 7",
        "unclosed-bracket 8",
        "unclosed-string 9",
        "unexpected-text 10",
    ]
    assert mistakes(TEN.replace("\n", "\r\n")) == mistakes(TEN)


def test_statements_behind_a_mistake_are_read() -> None:
    file, findings = parse(Source("test", "a: b(\nlet c = d(\noption e = 1\nf: g\n"))
    assert len(findings) == 2
    kinds = [type(statement).__name__ for statement in file.statements]
    assert kinds == ["Broken", "Broken", "Option", "Rule"]
    assert [s.declares for s in file.statements if isinstance(s, Broken)] == ["", "c"]


def test_what_a_broken_block_holds_is_kept() -> None:
    file, _ = parse(Source("test", "when x = 1 {\n  let c = d\n  option\n} else {\n  e: f\n}\n"))
    (block,) = file.statements
    assert isinstance(block, Broken)
    assert [type(statement).__name__ for statement in block.inside] == ["Let", "Broken", "Rule"]


@pytest.mark.parametrize("name", PLANS)
def test_whole_and_statement_by_statement(name: str) -> None:
    text = PLANS[name]
    for variant in (text, text.replace("\n", "\r\n"), text.rstrip("\n"), f"\n\n{text}\n\n", re.sub(r"#.*", "", text)):
        whole = _Reader(Source("test", variant)).whole()
        assert whole
        assert whole == split(variant)
