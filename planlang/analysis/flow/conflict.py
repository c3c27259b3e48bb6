"""What can go wrong, as the walks report it; `report.py` words it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.state import Tensor


class Fault(StrEnum):
    """Kinds of faults. The value says what would happen when run, as far as it is known."""

    MIXED = "mixed"  # a plain tensor meets a DTensor
    MISMATCH = "mismatch"  # an operator's inputs do not lie alike
    PARTIAL = "partial"  # a partial sum is used as if it were whole
    REDUCED = "reduced"  # a sum, mean or softmax over a dimension that is cut
    CUT = "cut"  # a reshape or a slice goes through the parts
    PACKED = "packed"  # a slice or chunk along the dimension that is cut
    LENGTH = "length"  # code depends on a length that is a local one
    CLAIM = "claim"  # an input is declared to lie in a way that it does not
    UNEVEN = "uneven"  # parts of different lengths where all must be equal
    CALL = "call"  # a style does not fit the module's call
    REFUSED = "refused"  # torch refuses the conversion
    HEAD = "head"  # the output is not what the loss expects
    UNKNOWN = "unknown"  # there is no rule for an operator


@dataclass(slots=True)
class Conflict(Exception):
    """An operator or a boundary cannot do what the single device does.

    Attributes:
        fault: its kind.
        text: what is wrong, one clause, for a message.
        crashes: whether torch raises there; `None` where that is not known.
        tensors: the tensors involved, the one to blame first.
        module: the innermost module that runs.
        operator: the operator's name; empty at a boundary.
        cause: the rule to blame, where it is not that of the first tensor.
        sized: the tensors whose shapes gave the operator its sizes.
        backward: whether it goes wrong in the backward pass.
    """

    fault: Fault
    text: str
    crashes: bool | None = None
    tensors: tuple[Tensor, ...] = ()
    module: str = ""
    operator: str = ""
    cause: Cause | None = field(default=None)
    sized: tuple[Tensor, ...] = ()
    backward: bool = False

    def __hash__(self) -> int:
        return id(self)
