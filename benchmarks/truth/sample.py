"""Which cases are run: a seeded mixture of twins, sizes and kinds of plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeVar

from benchmarks.truth.case import Case, shared
from planlang.plan.spell import style_text

T = TypeVar("T")

# Shares in percent. Twins of one family share its part.
TWINS = {
    "qwen3": 26,
    "qwen3_tied": 5,
    "qwen3_one_kv": 4,
    "qwen3_score": 3,
    "qwen3_uneven": 2,
    "qwen2": 12,
    "qwen2_tied": 4,
    "qwen2_score": 2,
    "qwen2_uneven": 2,
    "llama": 10,
    "gemma3": 13,
    "gemma3_uneven": 2,
    "phi3": 10,
    "qwen3_moe": 5,
}
KINDS = {"one": 40, "one_layer": 5, "two": 23, "mixed": 10, "some": 7, "random": 15}
SHAPES = {(3, 10): 60, (3, 1): 20, (2, 10): 12, (2, 1): 8}  # batch and length


def cases(count: int, seed: int) -> Iterator[Case]:
    """Every right plan first, then `count` others of all kinds in turn. No case comes twice."""
    draw = random.Random(seed)
    seen: set[str] = set()
    for case in _right():
        seen.add(case.id)
        yield case
    made = 0
    while made < count:
        case = _drawn(draw)
        if case.id not in seen and case.styles:
            seen.add(case.id)
            made += 1
            yield case


def _right() -> Iterator[Case]:
    plans, twins = shared("plans"), shared("twins")
    for twin in TWINS:
        for name, plan in plans.right_plans(twin).items():
            styles = plans.expand(plan, twins.module_names(twin))
            spelt = {key: style_text(style) for key, style in styles.items()}
            for tp, (batch, length) in ((2, (3, 10)), (4, (2, 1))):
                yield Case(twin=twin, tp=tp, batch=batch, length=length, styles=spelt, kind="right", edit=name)


def _drawn(draw: random.Random) -> Case:
    kind, twin = _choice(KINDS, draw), _choice(TWINS, draw)
    layers = 2 if kind == "one_layer" or draw.random() < 0.05 else 1
    attention = "eager" if draw.random() < 0.08 else "sdpa"
    classes = shared("twins").module_names(twin, layers)
    edit, plan = shared("edits").any_edit(twin, classes, kind, draw)
    styles = shared("plans").expand(plan, classes)
    batch, length = _choice(SHAPES, draw)
    return Case(
        twin=twin,
        layers=layers,
        attention=attention,
        tp=2 if draw.random() < 0.6 else 4,
        batch=batch,
        length=length,
        retie=("tied" not in twin and "gemma" not in twin) or draw.random() < 0.8,
        styles={name: style_text(styles[name]) for name in sorted(styles)},
        kind=kind,
        edit=edit,
    )


def _choice(shares: dict[T, int], draw: random.Random) -> T:
    return draw.choices(list(shares), list(shares.values()))[0]
