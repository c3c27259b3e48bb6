"""Plans that may be wrong, seeded: right ones with entries changed, dropped or added, mixtures and random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from planlang.layout import Conversion, Partial, Shard
from planlang.plan.styles import Colwise, Prepare, Replicated, Rowwise, Sequence, Style
from plans import ATTENTION, COLUMNS, LAYER, MLP, TOKENS, WHOLE, Plan, expand, right_plans

Kind: TypeAlias = Literal["matrix", "norm", "container"]
Edit: TypeAlias = tuple[str, Plan]  # what was done, in words, and the plan after it

_MATRIX_STYLES: tuple[Style, ...] = (
    Colwise(),
    Colwise(out=WHOLE),
    Colwise(in_=COLUMNS, out=WHOLE),
    Colwise(in_=TOKENS),
    Colwise(local=False),
    Colwise(out=WHOLE, local=False),
    Rowwise(),
    Rowwise(in_=WHOLE),
    Rowwise(out=TOKENS),
    Rowwise(out=TOKENS, local=False),
    Rowwise(out=Partial()),
    Rowwise(out=Shard(0)),
)
_NORM_STYLES: tuple[Style, ...] = (
    Sequence(),
    Sequence(local=True),
    Sequence(dim=2, local=True),
    Sequence(dim=2),
    Replicated(grad="sum"),
    Replicated(grad="none"),
)
_TO_WHOLE, _KEEP, _TO_TOKENS = Conversion(TOKENS, WHOLE), Conversion(WHOLE, WHOLE), Conversion(WHOLE, TOKENS)
_ATTENTION_STYLES: tuple[Style, ...] = (
    Prepare(keywords=(("hidden_states", _KEEP),)),
    Prepare(keywords=(("hidden_states", _TO_WHOLE),)),
    Prepare(keywords=(("hidden_states", _KEEP),), local_in=True),
    Prepare(keywords=(("hidden_states", _TO_WHOLE),), local_in=True),
    Prepare(keywords=(("hidden_states", _TO_TOKENS),), local_in=True),
    Prepare(outputs=(_TO_TOKENS, None)),
)
_MLP_STYLES: tuple[Style, ...] = (
    Prepare(inputs=(_KEEP,)),
    Prepare(inputs=(_TO_WHOLE,)),
    Prepare(inputs=(_KEEP,), local_in=True),
    Prepare(inputs=(_TO_WHOLE,), local_in=True),
    Prepare(inputs=(_TO_TOKENS,), local_in=True),
    Prepare(outputs=(_TO_TOKENS,)),
    Prepare(outputs=(Conversion(Partial(), WHOLE),)),
    Prepare(inputs=(_TO_WHOLE,), outputs=(_TO_TOKENS,), local_in=True, local_out=False),
    Replicated(grad="sum"),
    Replicated(grad="none"),
)


def styles_for(name: str, classes: Mapping[str, str]) -> tuple[Style, ...]:
    """The styles that torch takes for the modules of a name or pattern.

    Args:
        name: a full name or a pattern.
        classes: the class of every module by its full name.
    """
    found = {classes[each] for each in expand({name: Colwise()}, classes)}
    if any((cls.endswith("Embedding") and "Rotary" not in cls) or cls == "Linear" for cls in found):
        return _MATRIX_STYLES + _NORM_STYLES
    if any(cls.endswith("Norm") for cls in found):
        return _NORM_STYLES
    if name.endswith("self_attn"):
        return _ATTENTION_STYLES
    return _MLP_STYLES if name.endswith("mlp") else ()


def sites(classes: Mapping[str, str], *, each_layer: bool = False) -> list[str]:
    """The names that a plan may have an entry for, a pattern for all layers or each layer's own."""
    found: dict[str, None] = {}
    for name in classes:
        parts = name.split(".")
        if not each_layer and len(parts) > 2 and parts[1] == "layers":
            parts[2] = "*"
        key = ".".join(parts)
        if key not in found and styles_for(key, classes):
            found[key] = None
    return list(found)


def one_entry(plan: Plan, classes: Mapping[str, str]) -> Iterator[Edit]:
    """Every plan in which one entry is dropped, replaced or added."""
    each_layer = any(".layers." in key and "*" not in key for key in plan)
    for key in sites(classes, each_layer=each_layer):
        if key in plan:
            yield f"drop {key}", {other: style for other, style in plan.items() if other != key}
        for style in styles_for(key, classes):
            if plan.get(key) != style:
                yield f"{'replace' if key in plan else 'add'} {key}", {**plan, key: style}


def two_entries(plan: Plan, classes: Mapping[str, str], draw: random.Random) -> Edit:
    """A plan with two entries changed."""
    first, once = draw.choice(list(one_entry(plan, classes)))
    second, twice = draw.choice(list(one_entry(once, classes)))
    return f"{first}; {second}", twice


def some_entries(plan: Plan, draw: random.Random) -> Edit:
    """A plan with a random part of its entries."""
    share = draw.choice((0.3, 0.6, 0.85))
    return f"keep {share}", {key: style for key, style in plan.items() if draw.random() < share}


def mixed(plans: Mapping[str, Plan], draw: random.Random) -> Edit:
    """Each entry from one of two right plans."""
    first, second = draw.choice(sorted(plans)), draw.choice(sorted(plans))
    keys = [*plans[first], *(key for key in plans[second] if key not in plans[first])]
    found: Plan = {}
    for key in keys:
        style = plans[draw.choice((first, second))].get(key)
        if style is not None:
            found[key] = style
    return f"mix {first} {second}", found


def random_plan(classes: Mapping[str, str], draw: random.Random) -> Edit:
    """Each module gets a random style, or none."""
    chance = draw.choice((0.1, 0.25, 0.6))
    keys = [key for key in sites(classes) if draw.random() < chance * (1 if key not in (ATTENTION, MLP) else 0.3)]
    return f"random {chance}", {key: draw.choice(styles_for(key, classes)) for key in keys}


def any_edit(twin: str, classes: Mapping[str, str], kind: str, draw: random.Random) -> Edit:
    """One plan of a kind: `right`, `one`, `one_layer` (changed in one layer only), `two`, `some`, `mixed`, `random`."""
    plans = right_plans(twin)
    base = draw.choice(sorted(plans))
    plan = plans[base]
    match kind:
        case "right":
            edit: Edit = ("", plan)
        case "one":
            edit = draw.choice(list(one_entry(plan, classes)))
        case "one_layer":
            edit = draw.choice([e for e in one_entry(expand(plan, classes), classes) if ".layers." in e[0]])
        case "two":
            edit = two_entries(plan, classes, draw)
        case "some":
            edit = some_entries(plan, draw)
        case "mixed":
            return mixed(plans, draw)
        case _:
            return random_plan(classes, draw)
    return f"{base}: {edit[0]}", edit[1]


__all__ = [
    "LAYER",
    "any_edit",
    "mixed",
    "one_entry",
    "random_plan",
    "sites",
    "some_entries",
    "styles_for",
    "two_entries",
]
