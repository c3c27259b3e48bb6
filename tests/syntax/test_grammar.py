"""The grammar and what the code says of it: rule by rule, keyword by keyword."""

import re

import pytest
from lark import Lark
from lark.exceptions import LexError
from lark.grammar import Rule
from lark.lexer import ContextualLexer, PatternStr

from planlang import resources
from planlang.syntax import printer
from planlang.syntax.build import Builder
from planlang.syntax.messages import _NAMED, STATEMENT_WORDS
from planlang.syntax.parser import _Newlines, lark


def rules() -> list[Rule]:
    return lark().rules


def test_every_rule_is_built_or_inlined() -> None:
    callbacks = set()
    for rule in rules():
        name = rule.alias or rule.options.template_source or rule.origin.name
        if rule.alias or not (rule.origin.name.startswith("_") or rule.options.expand1):
            callbacks.add(name)
        elif rule.options.expand1 and len(rule.expansion) > 1:
            # `?sum: product (PLUS product)*` is `sum` where it has several children.
            callbacks.add(name)
    inlined = {name for name in callbacks if name.startswith("_")}
    methods = {name for name in vars(Builder) if not name.startswith("_")}
    # `statement`, `pattern`, `value` and the like always have one child, or an alias where they have more.
    assert callbacks - inlined == methods


def test_keywords() -> None:
    terminals = {t.name: t.pattern.value for t in lark().terminals if isinstance(t.pattern, PatternStr)}
    words = {value for value in terminals.values() if value.isalpha()}
    assert words == printer.KEYWORDS
    assert all(name == value.upper() for name, value in terminals.items() if value.isalpha())


def test_statements_begin_with_the_words_that_messages_name() -> None:
    first = {
        terminal
        for terminal in lark().parse_interactive("", start="statement").accepts()
        if terminal not in ("PATH", "LPAR")
    }
    assert {word.upper() for word in STATEMENT_WORDS} == first
    assert len(set(STATEMENT_WORDS)) == len(STATEMENT_WORDS)


def test_messages_name_terminals_that_there_are() -> None:
    assert set(_NAMED) <= {terminal.name for terminal in lark().terminals} | {"$END"}


def test_only_the_contextual_lexer() -> None:
    parser = lark()
    assert parser.options.parser == "lalr"
    assert parser.options.lexer == "contextual"
    assert isinstance(parser.parser.lexer, ContextualLexer) or isinstance(parser.parser.lexer.lexer, ContextualLexer)
    assert not parser.options.ambiguity or parser.options.ambiguity == "auto"
    assert not re.search(r"%(?:declare|override|extend)\b", resources.grammar())


def test_no_two_terminals_that_one_state_takes_read_the_same_bracket() -> None:
    """`{` opens a map or a block; which of them it is, the state of the parser says."""
    by_text: dict[str, set[str]] = {}
    for terminal in lark().terminals:
        by_text.setdefault(terminal.pattern.value, set()).add(terminal.name)
    shared = {text: names for text, names in by_text.items() if len(names) > 1}
    assert shared == {"{": {"MAP_OPEN", "BLOCK_OPEN"}} or shared == {"\\{": {"MAP_OPEN", "BLOCK_OPEN"}}
    for state, actions in lark().parser.parser._parse_table.states.items():
        assert not {"MAP_OPEN", "BLOCK_OPEN"} <= set(actions), state
        assert not {"MAP_OPEN", "PATH"} <= set(actions), state
        assert not {"BLOCK_OPEN", "PATH"} <= set(actions), state


def strict(grammar: str) -> Lark:
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["file", "statement", "when_head", "pattern", "style"],
        maybe_placeholders=False,
        postlex=_Newlines(),
        strict=True,
    )


def test_no_rule_conflicts_and_no_terminals_collide() -> None:
    """Lark's own check, which needs `interegular`; it looks at terminals state by state."""
    pytest.importorskip("interegular")
    strict(resources.grammar())


def test_strict_mode_sees_collisions() -> None:
    pytest.importorskip("interegular")
    with pytest.raises(LexError, match="Collision"):
        strict(
            resources.grammar()
            .replace("INT: /[0-9]+/", "INT: /[0-9]+/\nDIGITS: /[0-9][0-9]/")
            .replace("scalar_operand: INT", "scalar_operand: DIGITS | INT")
        )
