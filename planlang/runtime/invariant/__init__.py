"""Styles whose results have the same bits on 1, 2, 4 and 8 ranks, forward and backward.

Floating-point addition depends on its order, and a kernel may add in another order where a matrix is wider. Both are
taken away: every product that is split over ranks is computed in a fixed number of blocks, whose shapes do not depend
on the number of ranks, and every sum over blocks is one fixed binary tree (`sums.py`).
"""

from planlang.runtime.invariant.styles import (
    InvariantAttention,
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
)

__all__ = ["InvariantAttention", "InvariantColwiseParallel", "InvariantRowwiseParallel", "InvariantSequenceParallel"]
