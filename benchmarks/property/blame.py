"""Whether an error of `check` stands at a rule that is responsible for what a plan does wrong.

Of a plan whose entries were changed it is known what is wrong: a changed entry, or two. An error is

- *at it* if it is placed at a changed entry, first or as a related place; an entry that was taken away has no place,
  so there the error has to name its module;
- *beside it* if it is placed at an entry whose module is directly connected to a changed one (`connected.py`): two
  rules that do not fit are one mistake, and which of them was meant is not to be seen;
- *elsewhere* if neither.

Of other plans the smallest part that still fails in the same way (`smallest.py`) says which rules are responsible.
Rules that are missing are in no part of a plan, so there an error that is beside it is as good as one at it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

from benchmarks.property.connected import connected
from benchmarks.property.drawn import Drawn
from benchmarks.property.judged import Judged
from planlang.analysis.flow.words import star

Where: TypeAlias = Literal["at it", "beside it", "elsewhere", "nowhere"]


def blame(drawn: Drawn, said: Judged, smallest: Collection[str] = ()) -> Where:
    """Where the errors of a wrong plan stand; `nowhere` if there are none.

    Args:
        drawn: the plan.
        said: what `check` says of it.
        smallest: the patterns of its smallest part that fails, where no entries are known to have been changed.
    """
    if said.verdict != "error":
        return "nowhere"
    responsible = drawn.edited or tuple(smallest)
    if said.placed & set(responsible):
        return "at it"
    modules = {star(key) for key in responsible}
    if said.named & {star(key) for key in responsible if key not in drawn.plan}:
        return "at it"
    placed = {star(key) for key in said.placed}
    pairs = connected(drawn.twin, {star(key) for key in (*drawn.plan, *drawn.base)})
    if any((one, other) in pairs for one in modules for other in placed) or modules & placed:
        return "beside it"
    return "elsewhere"
