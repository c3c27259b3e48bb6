"""The dataflow of one forward pass, as data: what the checker walks.

A graph is a list of events in the order of execution: operators as the model's code calls them (`torch.nn.functional.
linear`, `torch.Tensor.view`), the entry and the exit of every module, and the decisions that the code took on sizes.
A layer that is repeated is stored once, as a *body*, and called under each of its names.

Integers that the code read off a tensor's shape keep their origin (`Size`), since on a rank they may be others: a view
to `[B, S, -1, 128]` means something else where `S` was read off a local shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Union

Kind = Literal["float", "int", "bool"]
Origin = Literal["input", "parameter", "buffer", "constant", "computed"]


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor."""

    value: int


@dataclass(frozen=True, slots=True)
class Dim:
    """The length of one dimension of a tensor, `x.shape[dim]`."""

    value: int
    dim: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A sum, difference, product, quotient or remainder of sizes, by Python's rules."""

    op: Literal["+", "-", "*", "//", "%"]
    left: Expression
    right: Expression


Expression: TypeAlias = Union[Dim, Arithmetic, int]  # noqa: UP007 (a forward reference)


@dataclass(frozen=True, slots=True)
class Size:
    """An integer that was computed from shapes: what it was in this pass, and how it came about."""

    number: int
    origin: Expression


@dataclass(frozen=True, slots=True)
class Slice:
    """A Python slice inside an index."""

    start: Argument
    stop: Argument
    step: Argument


@dataclass(frozen=True, slots=True)
class Other:
    """An argument that is no tensor, number, text or sequence: a dtype, a device, `...`."""

    text: str


Argument: TypeAlias = Union[Ref, Size, Slice, Other, bool, int, float, str, "tuple[Argument, ...]", None]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the pass on one device.

    Attributes:
        shape: its global shape.
        kind: floating-point, integer or boolean.
        origin: where it came from.
        grad: whether a gradient flows to it.
        names: for a parameter or buffer, every name it has; inside a body relative to the body's module.
    """

    shape: tuple[int, ...]
    kind: Kind
    origin: Origin = "computed"
    grad: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Op:
    """An operator: its public name, its arguments, the tensors that it returned.

    Attributes:
        name: `torch.nn.functional.linear`, `torch.Tensor.add`.
        outs: the tensors returned, those in a tuple in order; an in-place operator returns a new value.
        mutates: the values that share memory with what an in-place operator wrote.
    """

    name: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...] = ()
    outs: tuple[int, ...] = ()
    mutates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Enter:
    """A module begins, called with these arguments."""

    module: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...] = ()


@dataclass(frozen=True, slots=True)
class Leave:
    """A module ends. Its outputs are in order; a lone tensor is one output, and mappings give their values."""

    module: str
    outs: tuple[Argument, ...]


FLOAT = "float"


@dataclass(frozen=True, slots=True)
class Guard:
    """The code compared a size, or asked a tensor for its value, and went on by the answer.

    Or it made a float of a size, whose way is not followed further: then `op` is `FLOAT` and `left` the size.
    """

    op: str
    left: Argument
    right: Argument
    answer: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A repeated layer runs.

    Attributes:
        module: the layer's name, before which the names in the body are to be read.
        body: which body.
        inputs: for every value that the body takes from outside, the value here.
        outputs: for every value that the body leaves behind, the value here.
    """

    module: str
    body: int
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]


Event: TypeAlias = Op | Enter | Leave | Guard | Call


@dataclass(frozen=True, slots=True)
class Graph:
    """One forward pass at one batch size and length.

    Attributes:
        batch: how many sequences.
        length: how many tokens in each.
        values: every tensor, by number.
        events: what happened, in order.
        bodies: the events of each repeated layer; module names are relative to the layer, whose own name is "".
        outputs: the values that the model returned.
        read: what `read_by` worked out, by body.
    """

    batch: int
    length: int
    values: tuple[Value, ...]
    events: tuple[Event, ...]
    bodies: tuple[tuple[Event, ...], ...] = ()
    outputs: tuple[int, ...] = ()
    read: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def read_by(self, body: int) -> tuple[int, ...]:
        """The values that a body reads and neither makes nor owns."""
        if body not in self.read:
            made: set[int] = set()
            found: dict[int, None] = {}
            for event in self.bodies[body]:
                match event:
                    case Op(_, args, kwargs, outs, _):
                        parts: tuple[object, ...] = (args, tuple(each for _, each in kwargs))
                        made.update(outs)
                    case Enter(_, args, kwargs):
                        parts = (args, tuple(each for _, each in kwargs))
                    case Leave(_, outs):
                        parts = (outs,)
                    case Guard(_, left, right, _):
                        parts = (left, right)
                    case Call():
                        parts = ()
                for part in parts:
                    found |= dict.fromkeys((*refs(part), *sized(part)))
            own = ("parameter", "buffer", "constant")
            self.read[body] = tuple(v for v in found if v not in made and self.values[v].origin not in own)
        return self.read[body]


def refs(argument: object) -> Iterator[int]:
    """Every tensor that an argument holds."""
    match argument:
        case Ref(value):
            yield value
        case tuple():
            for each in argument:
                yield from refs(each)
        case Slice(start, stop, step):
            for each in (start, stop, step):
                yield from refs(each)
        case _:
            return


def sized(argument: object) -> Iterator[int]:
    """Every tensor whose shape an argument was computed from."""
    match argument:
        case Size(_, origin):
            yield from sized(origin)
        case Dim(value, _):
            yield value
        case Arithmetic(_, left, right):
            yield from sized(left)
            yield from sized(right)
        case tuple():
            for each in argument:
                yield from sized(each)
        case Slice(start, stop, step):
            for each in (start, stop, step):
                yield from sized(each)
        case _:
            return


def mentioned(event: Event) -> Iterator[int]:
    """Every tensor that an event names, those that only gave a size too."""
    match event:
        case Op(_, args, kwargs, outs, mutates):
            parts: tuple[Argument, ...] = (*args, *(each for _, each in kwargs))
            yield from outs
            yield from mutates
        case Enter(_, args, kwargs):
            parts = (*args, *(each for _, each in kwargs))
        case Leave(_, outs):
            parts = outs
        case Guard(_, left, right, _):
            parts = (left, right)
        case Call(_, _, inputs, outputs):
            parts = ()
            for pairs in (inputs, outputs):
                yield from (outer for _, outer in pairs)
    yield from refs(parts)
    yield from sized(parts)
