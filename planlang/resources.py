"""Finds what is shipped beside the code: the grammar and the bundled plans.

In a wheel they lie in `planlang/_bundled/`, in a checkout beside the package.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

PLAN_SUFFIX = ".plan"


@cache
def _root() -> Path:
    package = Path(__file__).resolve().parent
    bundled = package / "_bundled"
    return bundled if bundled.is_dir() else package.parent


def grammar() -> str:
    """The text of the grammar."""
    return (_root() / "grammars" / "plan.lark").read_text(encoding="utf-8")


def bundled_plans() -> dict[str, Path]:
    """The bundled plans by name, sorted."""
    return {path.stem: path for path in sorted((_root() / "plans").glob(f"*{PLAN_SUFFIX}"))}


def cache_directory() -> Path | None:
    """A folder of the user's own for what can be remade, mode 0700; `None` where there can be none.

    `PLANLANG_CACHE_DIR` names another; an empty value switches caching off. A folder that belongs to somebody else, or
    that others may write to, is not used: what lies in it is unpickled.
    """
    named = os.environ.get("PLANLANG_CACHE_DIR")
    if named == "":
        return None
    try:
        folder = Path(named) if named else _platform_cache() / "planlang"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    private = os.name == "nt" or (status.st_uid == os.getuid() and not status.st_mode & 0o022)
    return folder if private and os.access(folder, os.W_OK) else None


def _platform_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
