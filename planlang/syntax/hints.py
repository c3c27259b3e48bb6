"""Slips that people bring from other notations: what stands at the place of a parse error, and what to write for it.

A table: which statement it is in, what stands there, which terminals were expected, and the words for it. The first row
that fits is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """One slip.

    Attributes:
        there: what stands at the place of the error.
        message: what is wrong; `{}` is replaced by what stands there.
        help: what to write.
        statement: the first word of the statement, as a pattern.
        expected: a terminal that the grammar would take there; any where empty.
        before: what ends right before the place.
    """

    there: re.Pattern[str]
    message: str
    help: str
    statement: re.Pattern[str]
    expected: str = ""
    before: re.Pattern[str] | None = None


_CONDITION = "when|else|require"


def _hint(there: str, message: str, help: str, *, statement: str = "", expected: str = "", before: str = "") -> Hint:
    return Hint(
        re.compile(there),
        message,
        help,
        re.compile(rf"(?:{statement})\b" if statement else ""),
        expected,
        re.compile(rf"(?:{before})$") if before else None,
    )


HINTS = (
    _hint("&&?", "`{}` is no operator here", "write `and`"),
    _hint(r"\|\|?", "`{}` is no operator here", "write `or`"),
    _hint("!", "`!` is no operator here", "write `not`, or `!=` for unequal", statement=_CONDITION),
    _hint("=(?![=>])", "a comparison is written with `==`", "write `==`", statement=_CONDITION),
    _hint("==", "a value is given with one `=`", "write `=`", expected="EQUAL"),
    _hint("=", "a value is given with one `=`", "write `=`", before="="),
    _hint("=>", "`=>` is no arrow here", "write `->`"),
    _hint(
        r"\(", "nothing can be called in a condition", "use options, mesh axes and `config.NAME`", statement=_CONDITION
    ),
    _hint("[<>=!]=?", "comparisons do not chain", "join two with `and`", statement=_CONDITION, before=r"[\w)\"][ \t]*"),
    _hint(r"\.\d", "numbers are whole", "write a whole number", before=r"\d"),
    _hint(r"\d*\.\d", "numbers are whole", "write a whole number"),
    _hint("//", "`//` begins no comment", "write `#`", expected="PATH"),
    _hint("//", "`//` begins no comment", "write `#`", expected="$END"),
    _hint(";", "`;` ends nothing", "write each statement on a line of its own"),
    _hint("else", "`else` follows no block", "put it on the line of the closing brace: `} else {`"),
    _hint(r"\[", "`[` has no meaning in a plan", "layers are written `.{{0..3}}.`", expected="COLON"),
    _hint(r"\[", "`[` has no meaning in a plan", "write parentheses: `shard(-1)`", before=r"\w"),
    _hint(r"[\[\]]", "`{}` has no meaning in a plan", "write `{{0..3}}` for several layers, `(a, b)` for a tuple"),
    _hint("['`]", "`{}` quotes nothing in this language", 'use `"`'),
    _hint(":", "a `let` gives its style with `=`", "write `=`", statement="let", expected="EQUAL"),
    _hint(":", "an option has its default behind `=`", "write `=`", statement="option", expected="EQUAL"),
    _hint(":", "an argument is written with `=`, not with `:`", "write `=`", expected="EQUAL"),
    _hint("=", "a rule has `:` behind its pattern", "write `:`", expected="COLON"),
    _hint(",", "several mesh axes stand in parentheses", "write `mesh (dp, tp)`", statement="mesh"),
    _hint("[a-z]", "`:` is missing behind the pattern", "write `PATTERN: STYLE`", expected="COLON"),
)


def hint_for(text: str, start: int, at: int, expected: set[str]) -> Hint | None:
    """The row for an error at `at` in the statement that begins at `start`."""
    for hint in HINTS:
        if (
            hint.there.match(text, at)
            and hint.statement.match(text, start)
            and (not hint.expected or hint.expected in expected)
            and (hint.before is None or hint.before.search(text[start:at]))
        ):
            return hint
    return None
