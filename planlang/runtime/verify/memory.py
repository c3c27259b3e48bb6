"""How much memory a run needs, so that one that cannot be is refused before it starts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.indices import IndexSet
from planlang.model.pretrained import text_config
from planlang.model.tree import Tree
from planlang.runtime.verify.cases import cases
from planlang.runtime.verify.twin import Twin

_GROUP = Path("/sys/fs/cgroup")
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
    if twin.full:
        return refused(needed(tree, twin, ranks, own=own), ranks)
    free = free_memory()
    need = _activations(twin, ranks) * (1 if own else ranks)  # real processes are known to be few
    if free is None or need <= free:
        return None
    message = f"{ranks} ranks need {_gib(need)} even with small widths, and {_gib(free)} are free"
    return Finding(code=codes.TOO_LITTLE_MEMORY, message=message, help="take fewer ranks: 2 and 4 show what others do")


def refused(need: int, ranks: int) -> Finding | None:
    """What is said where more bytes are needed than are free; nothing where that is not known."""
    free = free_memory()
    if free is None or need <= free:
        return None
    message = f"the real widths on {ranks} ranks need {_gib(need)}, and {_gib(free)} are free"
    return Finding(code=codes.TOO_LITTLE_MEMORY, message=message, help="leave `--full` out, or take fewer ranks")


def free_memory() -> int | None:
    """The bytes that can be had without taking any from other programs; `None` where the system does not say.

    In a container it is what its own limit leaves. Files that are kept in memory only to be read again count as free.
    """
    found = [each for each in (_available(), _left(_GROUP)) if each is not None]
    if found:
        return min(found)
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no such function, and macOS no such number
        return None


def _available(path: Path = Path("/proc/meminfo")) -> int | None:
    """What Linux takes for free."""
    with suppress(OSError, ValueError):
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _left(group: Path) -> int | None:
    """What the limit of a control group leaves; `None` where there is none."""
    with suppress(OSError, ValueError, StopIteration):
        most = int((group / "memory.max").read_text(encoding="ascii"))  # `max` where there is no limit
        used = int((group / "memory.current").read_text(encoding="ascii"))
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        files = next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
        return max(most - used + files, 0)
    return None


def _activations(twin: Twin, ranks: int) -> int:
    """The least bytes that a pass holds on one rank: a row of hidden numbers and one of logits for each token."""
    text = text_config(twin.config)
    most = max(case.batch * case.length // case.micro_batches for case in cases(ranks))
    width: int = text.hidden_size + text.vocab_size
    return most * width * _BYTES


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
