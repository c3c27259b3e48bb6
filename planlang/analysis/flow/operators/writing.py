"""Operators that write into a tensor at an index."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import REPLICATE, Refusal, Run, undistributed
from planlang.analysis.flow.operators.indexing import indexed
from planlang.layout import Layout, Shard
from planlang.model.graph import Ref


def _setitem(run: Run) -> tuple[Layout, ...]:
    """`x[index] = value`: x keeps its layout where each rank writes its part of the value into its part of x."""
    undistributed(run)
    base = run.operands[0]
    given, value = run.op.args[1:3]
    index = given if isinstance(given, tuple) else (given,)
    if any(isinstance(each, Ref | bool) for each in index):
        raise Refusal(Fault.UNKNOWN, "writing at the places that a tensor names is not known here", blame=(0,))
    if any(operand.partial for operand in run.operands):
        raise Refusal(
            Fault.UNKNOWN, "writing with partial sums is not known here", blame=tuple(range(len(run.operands)))
        )
    if not isinstance(value, Ref | int | float):
        raise Refusal(Fault.UNKNOWN, "what it writes is not known here", blame=(0,))
    if not isinstance(value, Ref):
        indexed(run, index, base.sharded)
        return (base.layout,)
    at = run.at(value) or 0
    written = run.operands[at]
    cut, dims = indexed(run, index, base.sharded)
    if base.layout == written.layout == REPLICATE:
        return (REPLICATE,)
    if base.sharded is None:
        text = "it writes a part into a whole tensor"
        raise Refusal(Fault.MISMATCH, text, crashes=None, blame=(at, 0))
    own = cut - (dims - written.dims)  # the value is broadcast to what is written over
    spread = own < 0 or written.shape[own] == 1
    if written.layout != (REPLICATE if spread else Shard(own)):
        text = "what it writes does not lie as the tensor that it writes into"
        raise Refusal(Fault.MISMATCH, text, crashes=None, blame=(0, at) if written.sharded is None else (at, 0))
    return (base.layout,)


RULES = {"setitem": _setitem}
