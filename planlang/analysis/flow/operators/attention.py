"""`scaled_dot_product_attention`."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import REPLICATE, Refusal, Run
from planlang.layout import Layout, Shard


def _attention(run: Run) -> tuple[Layout, ...]:
    """Q [B, Hq, S, D], k and v [B, Hk, T, D]: right where all are whole, all cut along the batch, or by heads.

    Grouped heads need both numbers of heads to be divided alike, so that each rank has whole groups. One kv head may
    stay whole, since every query head uses it.
    """
    q, k, v = run.operands[:3]
    cut = (q.sharded, k.sharded, v.sharded)
    if q.partial or k.partial:
        raise Refusal(Fault.PARTIAL, "attention takes a softmax of a partial sum", crashes=False, blame=(0, 1))
    if v.partial and cut[:2] == (None, None):
        return (v.layout,)
    if v.partial:
        raise Refusal(Fault.PARTIAL, "the values of attention are a partial sum", crashes=False, blame=(2,))
    if cut == (None, None, None):
        _check_masks(run, None)
        return (REPLICATE,)
    heads = q.dims - 3
    if cut == (heads, heads, heads):
        for index, operand in enumerate((q, k, v)):
            if operand.shape[heads] % run.ranks:
                text = f"{operand.shape[heads]} heads are no multiple of {run.ranks} ranks"
                raise Refusal(Fault.UNEVEN, text, crashes=None, blame=(index,))
    elif cut == (heads, None, None) and k.shape[heads] == v.shape[heads] == 1:
        if q.shape[heads] % run.ranks:
            raise Refusal(Fault.UNEVEN, f"{q.shape[heads]} heads are no multiple of {run.ranks}", blame=(0,))
    elif not (cut == (0, 0, 0) and heads > 0):
        names = ("queries", "keys", "values")
        words = [
            f"{name} {'whole' if dim is None else f'sharded along dimension {dim}'}"
            for name, dim in zip(names, cut, strict=True)
        ]
        blame = sorted(range(3), key=lambda index: cut[index] is None)
        raise Refusal(Fault.MISMATCH, f"attention has {', '.join(words)}", crashes=None, blame=tuple(blame))
    _check_masks(run, cut[0])
    return (Shard(cut[0] or 0),)


def _check_masks(run: Run, cut: int | None) -> None:
    q = run.operands[0]
    for index, mask in enumerate(run.operands[3:], 3):
        own = None if cut is None else cut - (q.dims - mask.dims)
        needs = own is not None and own >= 0 and mask.shape[own] != 1
        if mask.layout != (Shard(own) if needs and own is not None else REPLICATE):
            raise Refusal(Fault.MISMATCH, "the attention mask does not lie as the queries do", blame=(0, index))


RULES = {"scaled_dot_product_attention": _attention}
