"""A mistake found while a node is built: carried out of the parser as an exception, reported as a finding."""

from __future__ import annotations

from planlang.diagnostics.codes import Code
from planlang.source import Span


class Fault(Exception):
    """What is wrong with a statement, and where in the text."""

    def __init__(self, code: Code, span: Span, message: str, *, label: str = "", help: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.span = span
        self.message = message
        self.label = label
        self.help = help
