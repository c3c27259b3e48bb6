"""Syntax trees to text and back, with comments sprinkled wherever they may stand."""

import random
import string

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from planlang import resources
from planlang.source import Source
from planlang.syntax import nodes, printer
from planlang.syntax.chunks import comments
from planlang.syntax.format import format_source
from planlang.syntax.nodes import File, When
from planlang.syntax.parser import lark, parse, parse_style, parse_target

# Without shrinking: what fails is short enough, and to shrink a whole file takes minutes.
profile = settings(
    derandomize=True, deadline=None, database=None, max_examples=60, phases=[Phase.explicit, Phase.generate]
)

# Names, among them near-keywords and letters beyond ASCII.

_plain_names = st.one_of(
    st.sampled_from(["tp", "dp", "x", "config", "shard", "plans", "inner", "_", "Qwen3ForCausalLM", "café", "n\u0663"]),
    st.text(string.ascii_letters + "_", min_size=1, max_size=6),
).filter(lambda name: name not in printer.KEYWORDS)
_names = st.builds(nodes.Name, text=_plain_names)
_argument_keywords = sorted(printer.KEYWORDS - {"true", "false", "none"})
_argument_names = st.builds(nodes.Name, text=_plain_names | st.sampled_from(_argument_keywords))
_characters = st.characters(exclude_characters='"\n', exclude_categories=["Cs"]) | st.sampled_from("#(){},:= \t\r'")
_strings = st.text(_characters, max_size=8)
_naturals = st.integers(0, 10**18 - 1) | st.integers(0, 20)
_integers = st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(-4, 20)

# Patterns

_literals = st.builds(
    nodes.Literal,
    text=st.one_of(
        st.sampled_from(["model", "q", "0", "12", "007", "mesh", "in", "none", "é", "0x"]),
        _strings.map(lambda text: text.replace(".", "")),
    ),
)
_ranges = st.one_of(
    st.builds(lambda a, n, s: nodes.Range(first=a, last=a + n, step=s), *3 * [st.integers(1, 90)]),
    st.builds(lambda a, n, s: nodes.Range(first=-a - n, last=-a, step=s), *3 * [st.integers(1, 90)]),
    st.builds(lambda a, n: nodes.Range(first=a, last=-n), st.integers(0, 90), st.integers(1, 90)),
    st.just(nodes.Range(first=0, last=0)),
)


def _parts_of(inner: st.SearchStrategy[nodes.Part]) -> st.SearchStrategy[tuple[nodes.Part, ...]]:
    return st.lists(inner, min_size=1, max_size=4).map(_merged)


def _merged(parts: list[nodes.Part]) -> tuple[nodes.Part, ...]:
    """As the parser leaves them: no two stars and no two literals side by side."""
    kept: list[nodes.Part] = []
    for part in parts:
        if kept and type(kept[-1]) is type(part) and isinstance(part, nodes.Star | nodes.Literal):
            continue
        kept.append(part)
    return tuple(kept)


def _choices(inner: st.SearchStrategy[nodes.Part]) -> st.SearchStrategy[nodes.Choice]:
    options = st.one_of(st.just(()), _ranges.map(lambda r: (r,)), _parts_of(inner))
    return st.builds(nodes.Choice, options=st.lists(options, min_size=1, max_size=4).map(tuple))


_flat = _literals | st.just(nodes.Star())
# Braces within braces within braces are as deep as the grammar goes, and it takes no quotes there.
_innermost = st.sampled_from([nodes.Literal(text="q"), nodes.Literal(text="7"), nodes.Star()])
_nested = _flat | _choices(_flat | _choices(_flat | _choices(_innermost)))
_segments = st.builds(nodes.Segment, parts=_parts_of(_nested))


def _path(segments: list[nodes.Segment | nodes.AnyDepth]) -> nodes.Path:
    """A first `*` of a longer path is any depth, not one segment."""
    if len(segments) > 1 and segments[0] == nodes.Segment(parts=(nodes.Star(),)):
        segments[0] = nodes.AnyDepth()
    return nodes.Path(segments=tuple(segments))


_paths = st.lists(_segments | st.just(nodes.AnyDepth()), min_size=1, max_size=4).map(_path)
_patterns = st.recursive(
    _paths,
    lambda inner: st.one_of(
        st.builds(nodes.Except, base=inner, without=inner), st.builds(nodes.OfClass, base=inner, cls=_names)
    ),
    max_leaves=4,
)
targets = st.builds(nodes.Target, pattern=_patterns, optional=st.booleans())

# Styles

_scalars = st.builds(nodes.Scalar, value=st.one_of(st.booleans(), _integers, _strings))
_words = st.builds(nodes.Word, text=_plain_names | st.just("none"))


def _compound(atoms: st.SearchStrategy[nodes.Value]) -> st.SearchStrategy[nodes.Value]:
    values = atoms | st.builds(nodes.Convert, source=atoms, target=atoms)
    several = st.lists(values, max_size=3).map(tuple)
    entries = st.lists(st.builds(nodes.Entry, name=_argument_names, value=values), max_size=3).map(tuple)
    return st.one_of(
        st.builds(nodes.Call, word=_plain_names, values=several),
        st.builds(nodes.Tuple, values=several),
        st.builds(nodes.Map, entries=entries),
    )


_atoms = st.recursive(_words | _scalars, _compound, max_leaves=6)
_values = _atoms | st.builds(nodes.Convert, source=_atoms, target=_atoms)
_arguments = st.lists(st.builds(nodes.Argument, name=st.none() | _argument_names, value=_values), max_size=4).map(tuple)
styles = st.one_of(
    st.builds(nodes.Style, word=_names, arguments=_arguments),
    st.builds(
        nodes.Style,
        word=st.just(nodes.Name(text="custom")),
        path=st.builds(nodes.Scalar, value=_strings),
        arguments=_arguments,
    ),
)

# Conditions

_operands = st.one_of(
    st.builds(nodes.Scalar, value=st.one_of(st.booleans(), _naturals, _strings)),
    _names,
    st.builds(nodes.Config, name=_plain_names | st.sampled_from(sorted(printer.KEYWORDS))),
)
_OPERATORS = ["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "//", "%"]
conditions = st.recursive(
    _operands,
    lambda inner: st.one_of(
        st.builds(nodes.Unary, operator=st.sampled_from(["not", "-"]), operand=inner),
        st.builds(nodes.Binary, operator=st.sampled_from(_OPERATORS), left=inner, right=inner),
        st.builds(nodes.Member, operand=inner, among=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(
            nodes.Junction,
            operator=st.sampled_from(["and", "or"]),
            operands=st.lists(inner, min_size=2, max_size=3).map(tuple),
        ),
    ),
    max_leaves=8,
)

# Statements

_text = st.builds(nodes.Scalar, value=_strings)
_simple = st.one_of(
    st.builds(nodes.PlanLine, name=_names, classes=st.lists(_names, min_size=1, max_size=3).map(tuple)),
    st.builds(
        nodes.MeshLine,
        axes=st.lists(st.builds(nodes.Axis, name=_names, size=st.none() | _naturals), min_size=1, max_size=3).map(
            tuple
        ),
    ),
    st.builds(nodes.Extends, target=_text),
    st.builds(nodes.Drop, target=targets),
    st.builds(nodes.Let, name=_names, style=styles),
    st.builds(nodes.Option, name=_names, default=_scalars),
    st.builds(nodes.Require, condition=conditions, why=_text),
    st.builds(
        nodes.Expect,
        target=targets,
        claims=st.lists(st.builds(nodes.Argument, name=_argument_names, value=_values), min_size=1, max_size=3).map(
            tuple
        ),
    ),
    st.builds(nodes.Rule, target=targets, style=styles, override=st.booleans()),
)


def _whens(inner: st.SearchStrategy[nodes.AnyStatement]) -> st.SearchStrategy[nodes.AnyStatement]:
    blocks = st.lists(inner, max_size=3).map(tuple)
    when = st.builds(When, condition=conditions, then=blocks, otherwise=blocks)
    chained = st.builds(When, condition=conditions, then=blocks, otherwise=when.map(lambda following: (following,)))
    return when | chained


files = st.lists(st.recursive(_simple, _whens, max_leaves=6), max_size=5).map(lambda s: File(statements=tuple(s)))


def text_of(statements: tuple[nodes.AnyStatement, ...], indent: str = "", *, chained: bool = True) -> str:
    """Statements in the printer's form; a lone `when` in an `else` as `else when`, or in a block of its own."""
    lines = []
    for statement in statements:
        if not isinstance(statement, When):
            lines.append(f"{indent}{printer.one_line(statement)}\n")
            continue
        lines.append(f"{indent}when {printer.condition_text(statement.condition)} {{\n")
        lines.append(text_of(statement.then, indent + "  ", chained=chained))
        match statement.otherwise:
            case []:
                lines.append(f"{indent}}}\n")
            case [When()] if chained:
                lines.append(f"{indent}}} else {text_of(statement.otherwise, indent, chained=True).lstrip()}")
            case otherwise:
                lines.append(f"{indent}}} else {{\n{text_of(otherwise, indent + '  ', chained=chained)}{indent}}}\n")
    return "".join(lines)


def read(text: str) -> File:
    file, findings = parse(Source("test", text))
    assert [str(finding) for finding in findings] == []
    return file


def formatted(text: str) -> str:
    result, findings = format_source(Source("test", text))
    assert findings == ()
    assert result is not None
    return result


@profile
@given(targets)
def test_targets(target: nodes.Target) -> None:
    assert parse_target(printer.target_text(target)) == target


@profile
@given(styles)
def test_styles(style: nodes.Style) -> None:
    assert parse_style(printer.style_text(style)) == style


@profile
@given(conditions)
def test_conditions(condition: nodes.Condition) -> None:
    (statement,) = read(f'require {printer.condition_text(condition)} ""').statements
    assert statement == nodes.Require(condition=condition, why=nodes.Scalar(value=""))


@profile
@given(files, st.booleans())
def test_files(file: File, chained: bool) -> None:
    text = text_of(file.statements, chained=chained)
    assert read(text) == file
    once = formatted(text)
    assert read(once) == file
    assert formatted(once) == once


# Comments

_comment_texts = st.one_of(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["", " ", "(", "}", '"', "# #", "a: b", "else {", "  indented", "\t"]),
)


def sprinkled(text: str, pick: random.Random, remarks: list[str]) -> tuple[str, list[str]]:
    """`text` with blanks, newlines and comments where they may stand, and the comments in their order."""
    tokens = list(_tokens(text))
    pieces: list[str] = []
    put: list[str] = []
    opened: list[str] = []
    newline = pick.choice(["\n", "\n", "\r\n"])

    def comment() -> str:
        remark = pick.choice(remarks)
        put.append(remark)
        return f"#{remark}"

    def lines() -> str:
        """The end of a line, with or without a comment, and lines with nothing but comments."""
        made = ""
        if pick.random() < 0.3:
            made += pick.choice(["", " ", "\t"]) + comment()
        made += newline
        while pick.random() < 0.3:
            made += pick.choice(["", "", "   ", "\f", "\t"])
            if pick.random() < 0.6:
                made += comment()
            made += newline
        return made

    if pick.random() < 0.5:
        pieces.append(lines())
    at = 0
    for kind, start, end in tokens:
        between = text[at:start]
        if kind == "_NL":
            pieces += [between, lines(), text[start:end].rpartition("\n")[2]]
            at = end
            continue
        inside = bool(opened) and opened[-1] != "BLOCK_OPEN"
        if inside and pick.random() < 0.2:
            pieces += [lines(), between]
        else:
            pieces.append(between + pick.choice(["", "", "", " ", " \t"]))
        pieces.append(text[start:end])
        at = end
        if kind in ("LPAR", "MAP_OPEN", "BLOCK_OPEN"):
            opened.append(kind)
        elif kind in ("RPAR", "RBRACE"):
            opened.pop()
    pieces.append(text[at:])
    return "".join(pieces), put


def _tokens(text: str) -> list[tuple[str, int, int]]:
    interactive = lark().parse_interactive(text, start="file")
    return [(token.type, token.start_pos, token.end_pos) for token in interactive.iter_parse()]


def _shown(remarks: list[str]) -> list[str]:
    stripped = (remark.rstrip() for remark in remarks)
    return [remark[1:] if remark.startswith(" ") else remark for remark in stripped]


def _holds(text: str, remarks: list[str], file: File) -> None:
    assert [comment.text for comment in comments(text)] == remarks
    assert read(text) == file


@settings(profile, max_examples=100)
@given(files, st.integers(0, 2**32), st.lists(_comment_texts, min_size=1, max_size=6))
def test_comments_are_kept(file: File, seed: int, remarks: list[str]) -> None:
    text, put = sprinkled(text_of(file.statements), random.Random(seed), remarks)
    _holds(text, _shown(put), file)
    once = formatted(text)
    _holds(once, _shown(put), file)
    assert formatted(once) == once


@pytest.mark.parametrize("name", sorted(resources.bundled_plans()))
def test_bundled_plans(name: str) -> None:
    text = resources.bundled_plans()[name].read_text(encoding="utf-8")
    file = read(text)
    assert read(formatted(text)) == file
    bare = text_of(file.statements)
    assert read(bare) == file
    for seed in range(20):
        mixed, put = sprinkled(bare, random.Random(seed), ["a", " b", " (", ' "'])
        once = formatted(mixed)
        _holds(once, _shown(put), file)
        assert formatted(once) == once


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("mesh (tp)\n", "mesh tp\n"),
        ("mesh (dp, tp,)\n", "mesh (dp, tp)\n"),
        ("plan a for B,\n", "plan a for B\n"),
        ("**.a: b()\n", "*.a:      b\n"),
        ("{ a , b }: c(x=1,)\n", "{a,b}:    c(x=1)\n"),
        ('"a".b"c": d\n', "a.bc:     d\n"),
        ('"plan": d\n', '"plan":   d\n'),
        ("(a except b) except (c): d\n", "a except b except c:     d\n"),
        ("a?: b({x: 1,}, (1,), f(2,))\n", "a?:  b({x: 1}, (1), f(2))\n"),
        ('require ((a)) and (b or c) "d"\n', 'require a and (b or c) "d"\n'),
        ("when a {} else {}\n", "when a {\n} else {\n}\n"),
        ("when a {\n\n\nb: c\n\n\nd: e\n\n}", "when a {\n    b:   c\n\n    d:   e\n}\n"),
        ("a: b(\n  c, # d\n\n  e)", "a: b(\n    c,  # d\n    e,\n)\n"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert formatted(text) == canonical
    assert formatted(canonical) == canonical
