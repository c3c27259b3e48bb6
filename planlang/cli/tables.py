"""Tables on standard output: as wide as they need when nobody looks, as wide as the terminal when somebody does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from planlang.source import printable

_UNLIMITED = 10_000


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()) -> None:
    """Prints rows under headings; the columns named in `right` are flush right."""
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_UNLIMITED)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("\n".join(map(printable, cell.split("\n")))) for cell in row))
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")
