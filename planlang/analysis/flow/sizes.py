"""What sizes are on a rank that were read off tensors of which it has a part."""

from __future__ import annotations

import operator
from collections.abc import Callable

from planlang.analysis.flow.state import Tensor
from planlang.model.graph import FLOAT, Argument, Dim, Expression, Guard, Op, Size, Slice

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Sizes:
    """Works sizes out from the tensors that they were read off."""

    def __init__(self, tensor: Callable[[int], Tensor]) -> None:
        self._tensor = tensor

    def number(self, size: Size, rank: int = 0) -> int:
        """What a size is on a rank."""
        return self._work_out(size.origin, rank)

    def _work_out(self, expression: Expression, rank: int) -> int:
        if isinstance(expression, int):
            return expression
        if isinstance(expression, Dim):
            return self._tensor(expression.value).seen_shape(rank)[expression.dim]
        left, right = self._work_out(expression.left, rank), self._work_out(expression.right, rank)
        if expression.op in ("//", "%") and right == 0:
            return 0
        return _ARITHMETIC[expression.op](left, right)

    def hold(self, op: Op) -> bool:
        """Whether every size among the arguments is on each rank what it is on a single device."""
        return all(self._holds(each) for each in op.args) and all(self._holds(each) for _, each in op.kwargs)

    def _holds(self, argument: Argument) -> bool:
        if isinstance(argument, Size):
            return self._same(argument.origin) or self.number(argument) == argument.number
        if isinstance(argument, tuple):
            return all(self._holds(each) for each in argument)
        if isinstance(argument, Slice):
            return self._holds(argument.start) and self._holds(argument.stop) and self._holds(argument.step)
        return True

    def _same(self, expression: Expression) -> bool:
        """Whether all tensors that an expression reads show the code their global shapes."""
        if isinstance(expression, int):
            return True
        if isinstance(expression, Dim):
            tensor = self._tensor(expression.value)
            return tensor.whole or tensor.seen_shape() == tensor.shape
        return self._same(expression.left) and self._same(expression.right)

    def told(self, guard: Guard) -> str | None:
        """What is wrong about a decision on sizes, or a float of one, on a rank; `None` where it is the same."""
        if guard.op == FLOAT:
            number = self._value(guard.left)
            if not isinstance(guard.left, Size) or number == guard.left.number:
                return None
            return f"the code makes a float of the length {number}, where the single device has {guard.left.number}"
        differs = self._differs(guard)
        return differs and f"the code asks whether {differs}, which is another answer than on a single device"

    def _differs(self, guard: Guard) -> str | None:
        compare = _COMPARISONS.get(guard.op)
        if compare is None:
            return None
        left, right = self._value(guard.left), self._value(guard.right)
        if left is None or right is None or compare(left, right) == guard.answer:
            return None
        return f"{left} {guard.op} {right}"

    def _value(self, argument: Argument) -> int | None:
        if isinstance(argument, Size):
            return self.number(argument)
        return argument if isinstance(argument, int) else None
