"""Right plans for every twin: a style for each pattern of module names, one `fnmatch` pattern a dotted segment."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TypeAlias

from planlang.layout import Conversion, Layout, Replicate, Shard
from planlang.plan.styles import Colwise, Prepare, Replicated, Rowwise, Sequence, Style

Plan: TypeAlias = dict[str, Style]

LAYER = "model.layers.*"
ATTENTION = f"{LAYER}.self_attn"
MLP = f"{LAYER}.mlp"
EMBED, NORM, HEAD = "model.embed_tokens", "model.norm", "lm_head"
WHOLE, COLUMNS, TOKENS = Replicate(), Shard(-1), Shard(1)

_NORMS = ("input_layernorm", "post_attention_layernorm")
_GEMMA_NORMS = (*_NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")
_FAMILY_NORMS = {
    "gemma3": _GEMMA_NORMS,
    "olmo2": ("post_attention_layernorm", "post_feedforward_layernorm"),
}
# Where the heads are when their norm sees them: `[batch, tokens, heads, head]`, Gemma `[batch, heads, tokens, head]`.
_HEAD_DIM = {"qwen3": 2, "gemma3": 1}


def family(twin: str) -> str:
    """The part of a twin's name that says which architecture it is."""
    return "qwen3_moe" if twin.startswith("qwen3_moe") else twin.split("_")[0]


def right_plans(twin: str) -> dict[str, Plan]:
    """Plans that are right for a twin at 2 and at 4 ranks and any batch, if ties are restored; by name."""
    if family(twin) == "phi3":
        return _for_score(twin, _packed())
    if twin.startswith(("qwen3_one_kv", "olmo2", "stablelm")):  # these take all heads at once
        return {"gathered": _gathered(twin)}
    row, stable = _row(twin), _stable(twin)
    found = {
        "row": row,
        "row_hoisted": row | _hoisted(twin, WHOLE),
        "stable": stable,
        "stable_hoisted": stable | _hoisted(twin, WHOLE),
        "sequence": _sequence(twin),
        "sequence_hoisted": _sequence_hoisted(twin),
        "replicate": row | _replicated(twin),
        "blocks": {key: style for key, style in row.items() if key not in (EMBED, HEAD)},
        "gathered": _gathered(twin),
    }
    return _for_score(twin, found)


def expand(plan: Plan, names: Iterable[str]) -> Plan:
    """The style of every module by its full name.

    Raises:
        ValueError: a pattern matches nothing, or two match one module.
    """
    split = [(name, name.split(".")) for name in names]
    found: Plan = {}
    for pattern, style in plan.items():
        parts = pattern.split(".")
        matched = [n for n, own in split if len(own) == len(parts) and all(map(fnmatchcase, own, parts))]
        if not matched or any(name in found for name in matched):
            raise ValueError(f"{pattern} matches {matched or 'nothing'}")
        found |= dict.fromkeys(matched, style)
    return found


def norms(twin: str) -> tuple[str, ...]:
    """Patterns of the norms on the residual stream."""
    return (*(f"{LAYER}.{name}" for name in _FAMILY_NORMS.get(family(twin), _NORMS)), NORM)


def _projections(twin: str, inner: Layout, out: Style) -> Plan:
    """Attention and MLP from projections that are split over heads and features to `out`, which follows them."""
    plan: Plan = {f"{ATTENTION}.{which}_proj": Colwise(in_=inner) for which in "qkv"}
    plan[f"{ATTENTION}.o_proj"] = out
    if family(twin) != "qwen3_moe":
        plan |= {f"{MLP}.{which}_proj": Colwise(in_=inner) for which in ("gate", "up")}
        plan[f"{MLP}.down_proj"] = out
    return plan


def _head_norms(twin: str) -> Plan:
    """Each rank norms its own heads with the whole weight, whose gradient is summed over the ranks."""
    dim = _HEAD_DIM.get(family(twin).removesuffix("_moe"))
    if dim is None:
        return {}
    return {f"{ATTENTION}.{which}_norm": Sequence(dim=dim, local=True) for which in "qk"}


def _ends(out: Layout, local: bool) -> Plan:
    return {
        EMBED: Rowwise(in_=WHOLE, out=out, local=local),
        HEAD: Colwise(in_=out, out=COLUMNS, local=False),
    }


def _row(twin: str) -> Plan:
    return _ends(WHOLE, True) | _projections(twin, WHOLE, Rowwise()) | _head_norms(twin)


def _stable(twin: str) -> Plan:
    return _ends(WHOLE, True) | _projections(twin, WHOLE, Colwise(in_=COLUMNS, out=WHOLE)) | _head_norms(twin)


def _gathered(twin: str) -> Plan:
    """Every projection gathered at once: attention itself is computed by all ranks, so any number of heads will do."""
    plan: Plan = {f"{ATTENTION}.{which}_proj": Colwise(out=WHOLE) for which in "qkv"}
    plan[f"{ATTENTION}.o_proj"] = Rowwise(in_=WHOLE)
    if family(twin) != "qwen3_moe":
        plan |= {f"{MLP}.{which}_proj": Colwise() for which in ("gate", "up")} | {f"{MLP}.down_proj": Rowwise()}
    return _ends(WHOLE, True) | plan


def _hoisted(twin: str, source: Layout) -> Plan:
    """Attention and MLP take their input as one DTensor, whose gradient is summed once."""
    turn = Conversion(source, WHOLE)
    plan: Plan = {ATTENTION: Prepare(keywords=(("hidden_states", turn),))}
    if family(twin) != "qwen3_moe":
        plan[MLP] = Prepare(inputs=(turn,))
    return plan


def _sequence(twin: str) -> Plan:
    """The residual stream is one DTensor, split along the sequence, from the embedding to the head."""
    plan = _ends(TOKENS, False) | _projections(twin, TOKENS, Rowwise(out=TOKENS, local=False)) | _head_norms(twin)
    plan |= {key: Sequence() for key in norms(twin)}
    if family(twin) == "qwen3_moe":  # the mixture runs whole on every rank
        there, back = Conversion(TOKENS, WHOLE), Conversion(WHOLE, TOKENS)
        plan[MLP] = Prepare(inputs=(there,), outputs=(back,), local_in=True, local_out=False)
    return plan


def _sequence_hoisted(twin: str) -> Plan:
    plan = _sequence(twin) | _projections(twin, WHOLE, Rowwise(out=TOKENS, local=False))
    return plan | _hoisted(twin, TOKENS)


def _replicated(twin: str) -> Plan:
    """No parameter stays plain: norms are replicated, with a gradient that is whole, or a sum over heads."""
    plan: Plan = {key: Replicated(grad="none") for key in norms(twin)}
    return plan | {key: Replicated(grad="sum") for key in _head_norms(twin)}


def _packed() -> dict[str, Plan]:
    """For `qkv_proj` and `gate_up_proj`, which are cut apart after: they are gathered before."""
    plan = _ends(WHOLE, True)
    plan |= {
        f"{ATTENTION}.qkv_proj": Colwise(out=WHOLE),
        f"{ATTENTION}.o_proj": Rowwise(in_=WHOLE),
        f"{MLP}.gate_up_proj": Colwise(out=WHOLE),
        f"{MLP}.down_proj": Rowwise(in_=WHOLE),
    }
    replicated: Plan = {key: Replicated(grad="none") for key in norms("phi3")}
    return {
        "gathered": plan,
        "replicate": plan | replicated,
        "blocks": {key: style for key, style in plan.items() if key not in (EMBED, HEAD)},
    }


def _for_score(twin: str, plans: dict[str, Plan]) -> dict[str, Plan]:
    """For a classification head, which stays whole: it picks tokens by position."""
    if "_score" not in twin:
        return plans
    found: dict[str, Plan] = {}
    for name, plan in plans.items():
        found[name] = {key: style for key, style in plan.items() if key != HEAD}
        if name.startswith("sequence"):
            found[name]["score"] = Prepare(inputs=(Conversion(TOKENS, WHOLE),), local_in=True)
    return found
