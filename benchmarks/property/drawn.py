"""One random plan as data: its entries, the right plan that it was made from, and the circumstances it is run in."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from benchmarks.truth import sample
from benchmarks.truth.case import Case, shared, style_of
from benchmarks.truth.hunt import any_plan
from planlang.plan.spell import style_text
from planlang.plan.styles import Style

T = TypeVar("T")

# Shares in percent. The rest of the twins are those of `benchmarks.truth`.
TWINS = sample.TWINS | {"qwen3_tied_uneven": 2, "granite": 4, "stablelm": 3, "olmo2": 3}
KINDS = {"one": 36, "one_layer": 6, "two": 20, "mixed": 9, "some": 7, "random": 11, "wild": 11}
RANKS = {2: 56, 4: 36, 3: 4, 8: 4}
EVEN = (2, 4)  # ranks that divide the heads of all twins but those of one key and value head
EDITS = ("one", "one_layer", "two")  # kinds with entries that are known to have been changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One plan for one twin.

    Attributes:
        twin: a key of `twins.TWINS`.
        layers: its decoder layers.
        tp: ranks.
        kind: how it was made: a key of `KINDS`.
        edit: the same in words.
        plan: the style of each entry as the language writes it, by its pattern.
        base: the same of the right plan in which entries were changed; empty for kinds without one.
        extends: whether it is written as a plan that extends the right one.
    """

    twin: str
    layers: int
    tp: int
    kind: str
    edit: str
    plan: Mapping[str, str]
    base: Mapping[str, str] = field(default_factory=dict)
    extends: bool = False

    @property
    def id(self) -> str:
        """The same for the same plan in every run."""
        content = {key: value for key, value in asdict(self).items() if key not in ("kind", "edit")}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def edited(self) -> tuple[str, ...]:
        """The patterns whose entry is not the right plan's.

        None where no entries are known to have been changed, or where the number of ranks is one that no plan for split
        heads is right for.
        """
        if self.kind not in EDITS or self.tp not in EVEN:
            return ()
        return tuple(key for key in dict.fromkeys((*self.plan, *self.base)) if self.plan.get(key) != self.base.get(key))

    def styles(self) -> dict[str, str]:
        """The style of every module that has one, by its full name."""
        twins, plans = shared("twins"), shared("plans")
        made = {key: style_of(text) for key, text in self.plan.items()}
        found = plans.expand(made, twins.module_names(self.twin, self.layers))
        return {name: style_text(style) for name, style in sorted(found.items())}

    def cases(self) -> Iterator[Case]:
        """The circumstances: the one of training first, then others in which a plan may fail that is right there.

        They are those of `planlang verify`, but of a padding mask, eager attention and micro-batches one alone, which
        is another one for another plan.
        """
        styles = self.styles()
        length = self.tp * -(-12 // self.tp)
        some = ({"masked": True}, {"attention": "eager"}, {"micro_batches": 3, "batch": 6})[int(self.id, 16) % 3]
        for change in (
            {"batch": self.tp + 1},
            {"batch": self.tp, "length": 7},
            {"batch": 2, "length": 1},
            {"batch": 1},
            {"batch": 3, **some},
        ):
            settings: dict[str, Any] = {"twin": self.twin, "layers": self.layers, "tp": self.tp, "length": length}
            yield Case(**(settings | change), styles=styles, kind=self.kind, edit=self.edit)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Drawn:
        """Back from plain data; what is no field of it is left out."""
        return Drawn(**{key: value for key, value in data.items() if key in Drawn.__dataclass_fields__})


def draw_plans(seed: int) -> Iterator[Drawn]:
    """Plans without end, none twice, the same ones for the same seed."""
    draw = random.Random(seed)
    seen: set[str] = set()
    while True:
        each = _drawn(draw)
        if each.plan and each.id not in seen:
            seen.add(each.id)
            yield each


def _drawn(draw: random.Random) -> Drawn:
    edits, plans = shared("edits"), shared("plans")
    kind, twin = _choice(KINDS, draw), _choice(TWINS, draw)
    layers = 2 if kind == "one_layer" or draw.random() < 0.05 else 1
    classes = shared("twins").module_names(twin, layers)
    if kind == "wild":
        edit, plan = any_plan(twin, classes, draw)
    else:
        edit, plan = edits.any_edit(twin, classes, kind, draw)
    base: Mapping[str, Style] = {}
    if kind in EDITS:
        base = plans.right_plans(twin)[edit.partition(":")[0]]
        base = plans.expand(base, classes) if kind == "one_layer" else base
    return Drawn(
        twin=twin,
        layers=layers,
        tp=_choice(RANKS, draw),
        kind=kind,
        edit=edit,
        plan={key: style_text(style) for key, style in plan.items()},
        base={key: style_text(style) for key, style in base.items()},
        extends=bool(base) and draw.random() < 0.15,
    )


def _choice(shares: Mapping[T, int], draw: random.Random) -> T:
    return draw.choices(list(shares), list(shares.values()))[0]
