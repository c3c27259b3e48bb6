"""How much memory a run needs, so that one that cannot be is refused before it starts."""

from __future__ import annotations

import os

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.indices import IndexSet
from planlang.model.tree import Tree
from planlang.runtime.verify.twin import Twin

_BYTES = 8  # of a number in float64
_SINGLE = 6  # copies that one device has: weights, gradients, AdamW's two moments, the reordered model with gradients
_EACH = 4  # copies that each rank has, at most: weights, gradients and two moments


def needed(tree: Tree, twin: Twin, ranks: int, *, own: bool = False) -> int:
    """The bytes of all copies of a twin with real widths; with `own` each rank computes what is right by itself."""
    return numbers(tree, twin) * _BYTES * (_SINGLE * (ranks if own else 1) + _EACH * ranks)


def numbers(tree: Tree, twin: Twin) -> int:
    """How many parameters a twin with real widths has, counted without making it."""
    layers = tuple(twin.layers.split("."))
    count = 0
    for path, node in tree.walk():
        size = node.own_size()
        for depth, name in enumerate(path):
            if isinstance(name, IndexSet):
                among = twin.kept if path[:depth] == layers else tuple(name)
                size *= sum(index in name for index in among)
        count += size
    return count


def too_large(tree: Tree, twin: Twin, ranks: int, *, own: bool = False) -> Finding | None:
    """What is said of a twin that does not fit into the memory that is free."""
    return refused(needed(tree, twin, ranks, own=own), ranks)


def refused(need: int, ranks: int) -> Finding | None:
    """What is said where more bytes are needed than are free."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if need <= free:
        return None
    message = f"the real widths on {ranks} ranks need {need / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are free"
    return Finding(code=codes.TOO_LITTLE_MEMORY, message=message, help="leave `--full` out, or take fewer ranks")
