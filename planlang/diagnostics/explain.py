"""The page of a code: what it means, why it matters, an example and what to write instead.

The pages are `docs/PLN####.md` beside this file. A code is asked for as a person has it at hand: `PLN3001`, `pln3001`,
`3001` or `unmatched-rule`.
"""

from __future__ import annotations

from pathlib import Path

from planlang.diagnostics.codes import CODES, Code

DOCS = Path(__file__).with_name("docs")


def find(code: str) -> Code | None:
    """The row that `code` means, whether it has a page or not."""
    wanted = code.strip().lower()
    for row in CODES.values():
        number = row.number.lower()
        if wanted in (number, number.removeprefix("pln"), row.name):
            return row
    return None


def page(code: str) -> str | None:
    """The Markdown page of `code`; `None` where there is no such code or it has no page."""
    row = find(code)
    if row is None:
        return None
    try:
        return _path(row).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def known() -> tuple[Code, ...]:
    """The codes that have a page, in order of number."""
    return tuple(CODES[number] for number in sorted(CODES) if _path(CODES[number]).is_file())


def _path(row: Code) -> Path:
    return DOCS / f"{row.number}.md"
