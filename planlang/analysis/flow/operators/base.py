"""What a rule is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from planlang.analysis.flow.conflict import Fault
from planlang.layout import Layout, Partial, Replicate, Shard
from planlang.model.graph import Argument, Op, Ref, Size

REPLICATE = Replicate()


class Refusal(Exception):
    """An operator cannot run on these layouts.

    Attributes:
        fault: the kind.
        text: what is wrong.
        crashes: whether torch raises; `None` where that is not known.
        blame: which operands are involved, the one to blame first.
    """

    def __init__(self, fault: Fault, text: str, *, crashes: bool | None = None, blame: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.fault = fault
        self.text = text
        self.crashes = crashes
        self.blame = blame


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that goes in: its shape on a single device, its layout, whether it is floating-point."""

    shape: tuple[int, ...]
    layout: Layout
    is_float: bool = True

    @property
    def dims(self) -> int:
        return len(self.shape)

    @property
    def sharded(self) -> int | None:
        """The dimension that is cut."""
        return self.layout.dim if isinstance(self.layout, Shard) else None

    @property
    def partial(self) -> bool:
        return isinstance(self.layout, Partial)


@dataclass(frozen=True, slots=True)
class Run:
    """One operator that runs.

    Attributes:
        op: the event of the graph.
        operands: its tensors, in the order in which the arguments name them.
        outs: the shapes of its results on a single device.
        ranks: the size of the mesh axis.
        number: what a size is on a rank.
        distributed: whether the tensors are DTensors, so that sizes mean whole tensors.
    """

    op: Op
    operands: tuple[Operand, ...]
    outs: tuple[tuple[int, ...], ...]
    ranks: int
    number: Callable[[Size, int], int]
    distributed: bool = False

    @property
    def name(self) -> str:
        return self.op.name.rpartition(".")[2]

    def argument(self, position: int, name: str, default: Argument = None) -> Argument:
        """An argument by position or by name."""
        if position < len(self.op.args):
            return self.op.args[position]
        return next((value for key, value in self.op.kwargs if key == name), default)

    def integer(self, value: Argument, rank: int = 0) -> int | None:
        """An argument as an integer of a rank."""
        if isinstance(value, Size):
            return self.number(value, rank)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def integers(self, values: Argument, rank: int = 0) -> tuple[int, ...] | None:
        """An argument as integers of a rank; a lone one is a tuple of one."""
        found = tuple(self.integer(each, rank) for each in (values if isinstance(values, tuple) else (values,)))
        return tuple(each for each in found if each is not None) if None not in found else None

    @property
    def edges(self) -> tuple[int, ...]:
        """The ranks whose parts can differ: the first and the last."""
        return (0, self.ranks - 1)

    def at(self, argument: Argument) -> int | None:
        """Which operand a tensor argument is."""
        if not isinstance(argument, Ref):
            return None
        for index, value in enumerate(tensors(self.op)):
            if value == argument.value:
                return index
        return None


def tensors(op: Op) -> Iterator[int]:
    """The values of an operator's tensors, in the order in which its arguments name them."""

    def visit(argument: Argument) -> Iterator[int]:
        if isinstance(argument, Ref):
            yield argument.value
        elif isinstance(argument, tuple):
            for each in argument:
                yield from visit(each)

    for argument in op.args:
        yield from visit(argument)
    for _, argument in op.kwargs:
        yield from visit(argument)


def whole_integers(values: Argument) -> tuple[int, ...] | None:
    """The integers of an argument on a single device; a lone one is a tuple of one."""
    found = [
        each.number if isinstance(each, Size) else each for each in (values if isinstance(values, tuple) else (values,))
    ]
    return tuple(each for each in found if isinstance(each, int)) if all(isinstance(e, int) for e in found) else None


def undistributed(run: Run) -> None:
    """Refuses DTensors, for an operator of which it is not known what they do."""
    if run.distributed:
        raise Refusal(Fault.UNKNOWN, f"what DTensors do in `{run.name.strip('_')}` is not known here")


def known_names(*names: str) -> tuple[str, ...]:
    """Names of operators, without the underscores around them."""
    return tuple(name.strip("_") for name in names)
