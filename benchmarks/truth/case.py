"""One simulation as data: what is run, its name, and styles as text and back."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planlang.plan import ir
from planlang.plan.files import load
from planlang.plan.resolve import Facts, resolve
from planlang.plan.styles import Style
from planlang.source import Source

ROOT = Path(__file__).parent.parent.parent
_SHARED = ROOT / "tests" / "simulate"


def shared(name: str) -> Any:
    """A module that the tests of the simulator share: `twins`, `plans` or `edits`."""
    if str(_SHARED) not in sys.path:
        sys.path.insert(0, str(_SHARED))
    return importlib.import_module(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One plan on one twin, mesh and batch.

    Attributes:
        twin: a key of `twins.TWINS`.
        layers: its decoder layers.
        attention: transformers' `attn_implementation`.
        tp: ranks.
        batch: sequences.
        length: tokens in a sequence.
        masked: whether a padding mask hides something.
        micro_batches: in how many parts, one after the other, the batch is run.
        retie: whether ties are restored after applying.
        styles: the style of each ruled module, as the language writes it, by its full name.
        kind: how the plan was made; not part of the name.
        edit: the same in words; not part of the name.
    """

    twin: str
    layers: int = 1
    attention: str = "sdpa"
    tp: int = 2
    batch: int = 3
    length: int = 10
    masked: bool = False
    micro_batches: int = 1
    retie: bool = True
    styles: dict[str, str]
    kind: str = ""
    edit: str = ""

    @property
    def id(self) -> str:
        """The same for the same case in every run."""
        content = {key: value for key, value in asdict(self).items() if key not in ("kind", "edit")}
        for key, usual in (("masked", False), ("micro_batches", 1)):  # younger than most names
            if content[key] == usual:
                del content[key]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def as_dict(self) -> dict[str, Any]:
        """As plain data, its name first."""
        return {"id": self.id, **asdict(self)}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Case:
        """Back from plain data; what is no field of a case is left out."""
        return Case(**{key: value for key, value in data.items() if key in Case.__dataclass_fields__})


@cache
def style_of(text: str) -> Style:
    """A style from the text that `planlang.plan.spell.style_text` makes of it.

    Raises:
        ValueError: it is none.
    """
    source = Source("case.plan", f"plan case for Qwen3ForCausalLM\n\nmesh tp\n\nx: {text}\n")
    program, findings = load(source)
    plan, more = resolve(program, Facts())
    entry = plan.entries[0] if plan is not None and plan.entries else None
    if not isinstance(entry, ir.Rule):
        raise ValueError(f"{text}: {[str(finding) for finding in (*findings, *more)]}")
    return entry.style
