"""The styles of the language, resolved: every argument has a value.

One dataclass a style. Its fields are its arguments: their names, defaults and kinds are read from here by whatever
needs them (argument checks, near names, printing, every target), so a new argument is one new field. Names and defaults
follow `torch.distributed.tensor.parallel` (torch 2.13).
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias, Union, get_args

from planlang.layout import Conversion, Layout, Replicate, Shard

Scalar: TypeAlias = Union[bool, int, str, None]  # noqa: UP007 (a runtime alias that sphinx and mypy both read)
Inputs: TypeAlias = tuple[Conversion | None, ...]
KeywordInputs: TypeAlias = tuple[tuple[str, Conversion], ...]
ArgumentKind = Literal["layout", "flag", "dim", "conversions", "inputs", "grad", "axis", "blocks", "reduce", "free"]


def argument(kind: ArgumentKind, default: Any, name: str = "") -> Any:
    """A field that is an argument of its style; `name` where the language's name is a Python keyword."""
    return field(default=default, metadata={"kind": kind, "name": name})


Accumulator = Literal["float32", "float64"]
ACCUMULATORS: tuple[Accumulator, ...] = get_args(Accumulator)


@dataclass(frozen=True, slots=True)
class Tree:
    """How the sums of an invariant style are added up: in one fixed binary tree over its blocks.

    Attributes:
        acc: the type that is added in; `None` for the tensors' own.
    """

    acc: Accumulator | None = None

    def __str__(self) -> str:
        return "tree" if self.acc is None else f"tree(acc={self.acc})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Colwise:
    """`ColwiseParallel`: a Linear's output features, or an Embedding's hidden dim, are split over the ranks.

    Attributes:
        invariant: 0, or the number of blocks that the features are computed in, so that results have the same bits on
            any number of ranks that divides it (ours, not torch's: `planlang.runtime.invariant`).
        reduce: how the sums of an invariant style are added up.
    """

    word: ClassVar[str] = "colwise"
    in_: Layout = argument("layout", Replicate(), "in")
    out: Layout = argument("layout", Shard(-1))
    local: bool = argument("flag", True)
    invariant: int = argument("blocks", 0)
    reduce: Tree = argument("reduce", Tree())
    axis: str = argument("axis", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rowwise:
    """`RowwiseParallel`: a Linear's input features, or an Embedding's vocabulary, are split over the ranks.

    `invariant` and `reduce` are those of `Colwise`.
    """

    word: ClassVar[str] = "rowwise"
    in_: Layout = argument("layout", Shard(-1), "in")
    out: Layout = argument("layout", Replicate())
    local: bool = argument("flag", True)
    invariant: int = argument("blocks", 0)
    reduce: Tree = argument("reduce", Tree())
    axis: str = argument("axis", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """`SequenceParallel`: parameters whole on every rank, the input split along `dim`.

    `invariant` and `reduce` are those of `Colwise`; the blocks are those of `dim`.
    """

    word: ClassVar[str] = "sequence"
    dim: int = argument("dim", 1)
    local: bool = argument("flag", False)
    invariant: int = argument("blocks", 0)
    reduce: Tree = argument("reduce", Tree())
    axis: str = argument("axis", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """`PrepareModuleInput`, `…Output` or both: layouts change at the module's boundary, parameters stay.

    Attributes:
        inputs: one entry for each positional input, `None` for one that is left alone; empty where `in` is not given.
        keywords: the inputs converted by name, in the order written.
        outputs: one entry for each output; empty where `out` is not given.
        local_in: whether the module sees plain tensors (torch's default: false).
        local_out: whether plain tensors leave the module (torch's default: true).

    In a plan `local` stands for the one whose side is given; with both sides each is written by its own name.
    """

    word: ClassVar[str] = "prepare"
    inputs: Inputs = argument("inputs", (), "in")
    keywords: KeywordInputs = ()
    outputs: Inputs = argument("conversions", (), "out")
    local_in: bool = argument("flag", False)
    local_out: bool = argument("flag", True)
    axis: str = argument("axis", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicated:
    """Ours, not torch's: parameters become replicated DTensors, the module computes on what arrives.

    Attributes:
        grad: `sum` where each rank's gradient is one term of the whole, `none` where it is whole already.
    """

    word: ClassVar[str] = "replicate"
    grad: Literal["sum", "none"] = argument("grad", "sum")
    axis: str = argument("axis", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Ours, not torch's: the module computes attention in `invariant` blocks of heads; layouts and parameters stay."""

    word: ClassVar[str] = "attention"
    invariant: int = argument("blocks", 8)
    axis: str = argument("axis", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """The module is left alone on purpose."""

    word: ClassVar[str] = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """A `ParallelStyle` of the user's own, named by `pkg.mod:Class`; imported only where styles are made."""

    word: ClassVar[str] = "custom"
    path: str
    arguments: tuple[tuple[str, Scalar | Layout], ...] = ()
    axis: str = "tp"


Style: TypeAlias = Colwise | Rowwise | Sequence | Prepare | Replicated | Attention | Skip | Custom
STYLES: dict[str, type[Style]] = {
    cls.word: cls for cls in (Colwise, Rowwise, Sequence, Prepare, Replicated, Attention, Skip, Custom)
}


def arguments_of(style: type[Style]) -> dict[str, Field[Any]]:
    """The arguments of a style by the language's names, in the order in which they are printed."""
    return {f.metadata["name"] or f.name: f for f in fields(style) if "kind" in f.metadata}


def blocks_of(style: Style) -> int:
    """In how many blocks an invariant style computes its module; 0 for any other style."""
    return style.invariant if isinstance(style, Colwise | Rowwise | Sequence | Attention) else 0


def axis_of(style: Style) -> str | None:
    """The mesh axis that a style acts on; `None` for `skip`, which acts on none."""
    return None if isinstance(style, Skip) else style.axis
