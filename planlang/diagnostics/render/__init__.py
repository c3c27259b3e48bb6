"""Findings as text: one renderer a file, all with the same signature.

    render(findings, *, color=False) -> str

A renderer takes findings in the order it is given, never rewords them, and returns text without a last line end, so
that `click.echo` prints it as it is. No finding gives an empty text, except where a reader must still be able to parse
it (json, sarif). A renderer is imported when it is asked for: one run uses one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding

FORMATS = ("full", "concise", "json", "sarif", "github")


class Renderer(Protocol):
    """What `render` is in each of the files here."""

    def __call__(self, findings: Sequence[Finding], *, color: bool = False) -> str:
        """The findings as text."""
        ...


def render(findings: Sequence[Finding], format: str, *, color: bool = False) -> str:
    """The findings in one of `FORMATS`.

    Args:
        findings: what to print, in the order to print it.
        format: one of `FORMATS`.
        color: whether to use terminal colours; only `full` and `concise` do.

    Raises:
        ValueError: if there is no such format.
    """
    if format not in FORMATS:
        raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
    renderer: Renderer = import_module(f"{__name__}.{format}").render
    return renderer(findings, color=color)


def summary(findings: Sequence[Finding]) -> str:
    """How many there are of each severity, as `2 errors, 1 warning`; empty when there are none."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(
        f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in Severity
        if counts[severity]
    )
