"""Texts made to break or to stall: whatever comes, there are findings, soon."""

import time
from collections.abc import Callable

import pytest

import planlang
from planlang.diagnostics.finding import PlanError
from planlang.source import Source, Span
from planlang.syntax.fault import Fault
from planlang.syntax.format import format_source
from planlang.syntax.parser import parse, parse_style, parse_target

HEAD = "plan p for Qwen3ForCausalLM\n"
MANY = 10_000
DIGITS = "9" * 1000
LONGEST = 20.0  # seconds for one text on a slow and busy machine; each takes one or less on an idle one


def timed(action: Callable[[], object]) -> None:
    start = time.process_time()
    action()
    assert time.process_time() - start < LONGEST


def codes(text: str) -> list[str]:
    source = Source("test", text)
    _, findings = parse(source)
    for finding in findings:
        assert finding.place is not None
        assert 0 <= finding.place.span.start <= finding.place.span.end <= len(text)
    formatted, again = format_source(source)
    assert again == findings
    assert (formatted is None) == bool(findings)
    return [finding.code.name for finding in findings]


def attacked(text: str) -> list[str]:
    """Reads, formats and compiles."""
    found = codes(text)
    try:
        plan = planlang.loads(text)
    except PlanError:
        return found
    for model in ("qwen3-0.6b", None):
        for finding in plan.compile(model, tp=2).findings:
            assert finding.message
    return found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("require " + "(" * MANY + "a" + ")" * MANY + ' "x"', "too-deep"),
        ("require " + "(" * MANY, "too-deep"),
        ("require " + "not " * MANY + 'a "x"', "too-deep"),
        ("require " + "-" * MANY + '1 > 0 "x"', "too-deep"),
        ("require 1" + "+1" * MANY + ' > 0 "x"', "too-deep"),
        ("require 1" + " * 2" * MANY + ' > 0 "x"', "too-deep"),
        ("require a" + " == a" * MANY + ' "x"', "unexpected-text"),
        ("a: b(" + "(" * MANY + ")" * MANY + ")", "too-deep"),
        ("a: b(" + "{x: " * MANY + "1" + "}" * MANY + ")", "too-deep"),
        ("a: b(" + "f(" * MANY + ")" * MANY + ")", "too-deep"),
        ("a: b(" + "-" * MANY + "1)", "unexpected-text"),
        ("(" * MANY + "a" + ")" * MANY + ": b", "too-deep"),
        ("{" * MANY + "a" + "}" * MANY + ": b", "too-deep"),
        ("{a," * 200 + "b" + "}" * 200 + ": c", "too-deep"),
        ("{a," * 20 + "b" + "}" * 20 + ": c", "bad-pattern"),
        ("a" + " except b" * MANY + ": c", "too-deep"),
        ("a" + " is B" * MANY + ": c", "too-deep"),
        ("a" + "?" * MANY + ": c", "bad-pattern"),
        ("when tp == 1 {\n}" + " else when tp == 1 {\n}" * 2000, "too-deep"),
        ("when tp == 1 {\n" * MANY + "}\n" * MANY, "too-deep"),
        ("when tp == 1 {\n" * MANY, "too-deep"),
        ("when tp == 1 {\n}" + " else {\n}" * MANY, "unexpected-text"),
        ("x." * MANY + "x: a", "bad-pattern"),
        ("a" * 1_000_000, "bad-pattern"),
        ("a: b(\n" + "x" * 1_000_000, "unclosed-bracket"),
        ("a: b(\n" + "x " * 500_000, "unclosed-bracket"),
        ("foo bar" + " " * 1_000_000 + "!", "unknown-statement"),
        ('"a"' * 40, "unexpected-text"),
        ('"' * 100_000, "bad-pattern"),
        ('drop "a" ' + '"b" ' * 40, "unexpected-text"),
        ("{" * 60, "unclosed-bracket"),
        ("#" * 1_000_000 + "\n}", "unclosed-bracket"),
    ],
    ids=lambda text: text[:12] if len(text) > 12 else text,
)
def test_one_mistake(text: str, code: str) -> None:
    timed(lambda: _one(HEAD + text + "\n", code))


def _one(text: str, code: str) -> None:
    assert attacked(text) == [code]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"mesh (tp={DIGITS})", "number-too-large"),
        (f"option a = {DIGITS}", "number-too-large"),
        (f"option a = -{DIGITS}", "number-too-large"),
        (f"a: sequence(dim={DIGITS})", "number-too-large"),
        (f"a: colwise(out=shard(-{DIGITS}))", "number-too-large"),
        (f'require tp < {DIGITS} "x"', "number-too-large"),
        (f'require tp in {{1, {DIGITS}}} "x"', "number-too-large"),
        (f"a.{{0..{DIGITS}}}: colwise", "range-too-large"),
        (f"a.{{-{DIGITS}..-1}}: colwise", "range-too-large"),
        (f"a.{{0..1..{DIGITS}}}: colwise", "range-too-large"),
        ("a.{0..10000000000}: colwise", "range-too-large"),
        ("a.{0..100000}: colwise", "range-too-large"),
        (f"model.layers.{DIGITS}: colwise", ""),
        (f"model.layers.{{{DIGITS},1}}.mlp.up_proj: colwise", ""),
        (f'"{DIGITS}": colwise', ""),
    ],
)
def test_long_numbers(text: str, code: str) -> None:
    assert attacked(HEAD + text + "\n") == ([code] if code else [])


@pytest.mark.parametrize(
    "text",
    [
        "{a,b}" * 60 + ": colwise",
        "model.layers." + "{a,b}" * 60 + ": colwise",
        "model.layers." + "{,1}" * 60 + ".mlp.up_proj: colwise",
        "model.layers." + "{0..9}" * 9 + ".mlp.up_proj: colwise",
        "model.layers" + ".{0..99999}" * 5 + ": colwise",
        "model.layers." + "{0..99999}" * 5 + ": colwise",
        ".".join(["**"] * 50) + ": colwise",
        ".".join(["**", "*"] * 25) + ": colwise",
        "*.x" + "*a" * 500 + ": colwise",
        "*." + "{*,a}" * 50 + "x: colwise",
        "{" + ",".join(f"a{i}" for i in range(200)) + "}: colwise",
        ".".join(["{" + ",".join(f"a{i}" for i in range(200)) + "}"] * 3) + ": colwise",
        "lm_head" + " except a" * 60 + ": colwise",
        'require a or b or c or d or e or f or g or h "x"',
        "require tp > 1" + " or tp > 1" * 3000 + ' "x"',
    ],
    ids=lambda text: text[:20],
)
def test_patterns_that_multiply(text: str) -> None:
    timed(lambda: _one_or_none(HEAD + text + "\n"))


def _one_or_none(text: str) -> None:
    assert attacked(text) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("a colwise\n", "unexpected-text"),
        ("mseh tp\n", "unknown-statement"),
        ("a: b)\n", "unclosed-bracket"),
        ("}\n", "unclosed-bracket"),
        ('a: custom "\n', "unclosed-string"),
        ("else {\n}\n", "unexpected-text"),
        ("when a = 1 {\n  b: c\n}\n", "unexpected-text"),
        ("a: b(\nc: d)\n", "unexpected-text"),
    ],
)
def test_many_mistakes(line: str, code: str) -> None:
    timed(lambda: _many(HEAD + line * 1000, code, 1000))


def test_many_mistakes_in_one_block() -> None:
    timed(lambda: _many("when a {\n" + "b c\n" * 2000 + "}\n", "unknown-statement", 2000))
    timed(lambda: _many("when a {\n}" + " else when b = 1 {\n}" * 2000 + "\n", "unexpected-text", 2000))


def _many(text: str, code: str, times: int) -> None:
    assert codes(text) == [code] * times


def test_braces_below_their_whens() -> None:
    """Each is a mistake, up to the depth at which the parser stops to look."""
    found = codes("when a\n{\n" * MANY)
    assert "too-deep" in found
    assert len(found) < 200
    timed(lambda: _many("when a\n{\nb: c\n}\n" * 1000, "unexpected-text", 1000))


def test_an_unclosed_bracket_in_each_line() -> None:
    assert codes("a: b(\n" * 60) == ["unclosed-bracket"] * 60
    timed(lambda: codes("a: b(\n" * 100_000))


def test_large_texts_take_time_by_their_length() -> None:
    for text in (
        HEAD + "a: b(" + ",".join(f"x{i}=1" for i in range(5_000)) + ")\n",
        HEAD + 'require tp > 1 "' + "x" * 2_000_000 + '"\n',
        HEAD + "a: colwise  # b\n" * 2000,
        "# a\n" * 20_000 + HEAD,
        "\n" * 100_000 + HEAD,
        HEAD + "a: b(  # c\n" + "x,  # d\n" * 2000 + ")\n",
    ):
        timed(lambda text=text: _one_or_none_syntax(text))


def _one_or_none_syntax(text: str) -> None:
    assert codes(text) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a\0b: colwise\n", "unexpected-text"),
        ('a: custom "\0:x"\n', ""),
        ('require tp > 1 "\ud800"\n', ""),
        ("\ud800: colwise\n", "unexpected-text"),
        ('# \udfff\n"\ud800": colwise\n', ""),
        ("modèle.é: colwise\n", ""),
        ("e\u0301: colwise\n", "unexpected-text"),
        ('"e\u0301": colwise\n', ""),
        ("a.{\uff10..3}: colwise\n", "bad-pattern"),
        ("a.{0..\u0663}: colwise\n", "bad-pattern"),
        ("a: sequence(dim=\uff11)\n", "unexpected-text"),
        ("mesh (tp=\uff12)\n", "unexpected-text"),
        ("model.layers.\uff11.mlp.up_proj: colwise\n", ""),
        ("*.{\u0663,1}.mlp.up_proj: colwise\n", ""),
        ("model.layers.².mlp: colwise\n", ""),
        ("\u202ea: colwise\n", "unexpected-text"),
        ("# \u202e\nlm_head: colwise\n", ""),
        ("\f\flm_head:\fcolwise\f\n", ""),
        ("lm_head: colwise\rb: rowwise\r", "unexpected-text"),
        ("lm_head: colwise\u2028b: colwise\n", "unexpected-text"),
        ("lm_head: colwise\x85", "unexpected-text"),
        ("lm_head:\vcolwise\n", "unexpected-text"),
        ("lm_head:\u00a0colwise\n", "unexpected-text"),
        ("lm_head: \ufeffcolwise\n", "unexpected-text"),
    ],
)
def test_odd_characters(text: str, code: str) -> None:
    assert attacked(HEAD + text) == ([code] if code else [])


def test_a_digit_of_another_script_is_no_layer_number() -> None:
    for digit in ("\uff11", "\u0661", "\u00b9"):
        compiled = planlang.loads(f"{HEAD}model.layers.{digit}.mlp.up_proj: colwise\n").compile("qwen3-0.6b")
        assert [finding.code.name for finding in compiled.findings][:1] == ["unmatched-rule"]


def test_patterns_and_styles_by_themselves() -> None:
    spans: list[tuple[Span, int]] = []
    deep = ("(" * MANY, "a" + " except b" * MANY, "{" * MANY)
    for text in ("", " ", *deep, '"a"' * 40, "a:", "#", "\0", "\n\n", "a\nb"):
        for read in (parse_target, parse_style):
            try:
                read(text)
            except Fault as fault:
                spans.append((fault.span, len(text)))
    assert spans
    assert all(0 <= span.start <= span.end <= max(length, 1) for span, length in spans)
