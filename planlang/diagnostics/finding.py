"""A finding: one thing that is wrong, where, and what to write instead.

Messages start in lower case, are one sentence, and name source text in back-ticks; `help` says what to type. Renderers
take findings as they are and never reword them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from planlang.diagnostics.codes import Code, Severity
from planlang.source import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """Another place that a finding is about, and what stands there."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake, doubt or remark.

    Attributes:
        code: its row in the table.
        message: what is wrong, in one sentence that stands alone.
        place: where; `None` for what stands in no file (a command-line option, a missing file).
        label: a few words under the underlined text.
        related: other places, such as the rule that was there first.
        notes: facts that explain it, with the arithmetic that failed.
        help: what to write instead.
    """

    code: Code
    message: str
    place: Place | None = None
    label: str = ""
    related: tuple[Related, ...] = ()
    notes: tuple[str, ...] = ()
    help: str = ""

    @property
    def severity(self) -> Severity:
        """What it weighs."""
        return self.code.severity

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.code} {self.message}"


class PlanError(ValueError):
    """What the Python functions raise where the command line would print findings and stop.

    Attributes:
        findings: all of them, errors, warnings and notes.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        # Late, so that raising one costs no renderer.
        from planlang.diagnostics.render.full import render

        return "\n" + render(self.findings, color=False)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether any of them stops the compilation."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted by place; what has no place comes first; equal findings once."""

    def key(finding: Finding) -> tuple[str, int, str]:
        place = finding.place
        return (place.source.name, place.span.start, finding.code.number) if place else ("", 0, finding.code.number)

    return tuple(sorted(dict.fromkeys(findings), key=key))


def new_places(known: Iterable[Finding], more: Iterable[Finding]) -> list[Finding]:
    """Those of `more` that say something new: what two classes of a plan have in common is one mistake."""
    places = {(finding.code, finding.place) for finding in known if finding.place}
    return [finding for finding in more if (finding.code, finding.place) not in places]


def nearest(word: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """The names that `word` was most likely meant to be, best first."""
    return tuple(difflib.get_close_matches(word, sorted(set(names)), n=limit, cutoff=0.6))


def did_you_mean(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """`did you mean ...?` with the nearest names, or `otherwise` where none is near."""
    near = nearest(word, names)
    return f"did you mean {or_list(near)}?" if near else otherwise


def or_list(names: Iterable[str]) -> str:
    """`a`, `b` or `c`, each in back-ticks."""
    quoted = [f"`{name}`" for name in names]
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]])) if quoted else ""
