"""Rules of convolutions, of writing at an index and of some products, held against torch on the ranks' own parts.

Every operator is run on every combination of whole, cut and partial inputs: what a rule allows must give the parts or
terms of the single device's result, forward and backward, and what it calls wrong must give something else.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv2d, conv3d

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.gradients import pull
from planlang.analysis.flow.operators import Operand, Refusal, Run, rule_of
from planlang.analysis.flow.state import REPLICATE, for_gradient
from planlang.layout import Layout, Partial, Shard
from planlang.model.graph import Argument, Dim, Op, Other, Ref, Size, Slice

ALL = Slice(None, None, None)
OFFSETS = torch.tensor([2, 5, 8], dtype=torch.int32)


@dataclass
class Case:
    """An operator, its arguments in the graph, the shapes of its tensors, and how it is run."""

    op: Op
    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., Tensor]
    dtype: torch.dtype = torch.float64
    whole: tuple[Tensor, ...] = ()  # tensors that stay as they are

    def __str__(self) -> str:
        return f"{self.op.name.rpartition('.')[2]}-" + "-".join("x".join(map(str, shape)) for shape in self.shapes)


def conv(x: tuple[int, ...], w: tuple[int, ...], groups: int | None, *, bias: bool = False) -> Case:
    """A convolution whose number of groups is a constant, or is read off the input's channels."""
    given: Argument = Size(x[1], Dim(0, 1)) if groups is None else groups
    kwargs = (("weight", Ref(1)), ("bias", Ref(2) if bias else None), ("padding", 3), ("groups", given))

    def run(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return {3: conv1d, 4: conv2d, 5: conv3d}[x.ndim](
            x, w, b, padding=3, groups=x.shape[1] if groups is None else groups
        )

    name = f"torch.nn.functional.conv{len(x) - 2}d"
    return Case(Op(name, (Ref(0),), kwargs, (9,)), (x, w, (w[0],)) if bias else (x, w), run)


def written(index: Any, given: tuple[Argument, ...], value: tuple[int, ...] | float) -> Case:
    """`x[index] = value` on a tensor [4, 6, 2, 8]."""

    def run(x: Tensor, v: Tensor | None = None) -> Tensor:
        y = x.clone()
        y[index] = value if v is None else v
        return y

    scalar = isinstance(value, float)
    op = Op("torch.Tensor.__setitem__", (Ref(0), given, value if scalar else Ref(1)), (), (9,), (0,))
    return Case(op, ((4, 6, 2, 8),) if isinstance(value, float) else ((4, 6, 2, 8), value), run)


def solved(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True)


def grouped(x: Tensor, w: Tensor, offsets: Tensor) -> Tensor:
    return torch._grouped_mm(x, w, offs=offsets)


CASES = [
    conv((4, 8, 6), (8, 1, 4), None),
    conv((4, 8, 6), (8, 1, 4), 8),
    conv((4, 8, 6), (8, 1, 4), None, bias=True),
    conv((4, 8, 6), (16, 1, 4), None),
    conv((4, 8, 6), (8, 2, 4), 4),
    conv((4, 9, 6), (9, 1, 4), None),
    conv((4, 8, 6), (6, 8, 4), 1),
    conv((4, 8, 6), (6, 8, 4), 1, bias=True),
    conv((4, 8, 6), (8, 8, 1), 1),
    conv((4, 8, 6, 6), (8, 1, 4, 4), None),
    conv((4, 8, 6, 6), (6, 8, 4, 4), 1, bias=True),
    conv((4, 8, 4, 6, 4), (8, 2, 3, 3, 3), 4),
    written((slice(None), slice(None), 0), (ALL, ALL, 0), (4, 6, 8)),
    written((slice(None), slice(None), 0), (ALL, ALL, 0), (6, 1)),
    written((slice(None), slice(None), 0), (ALL, ALL, 0), 2.0),
    written((..., slice(1, 3)), (Other("..."), Slice(1, 3, None)), (4, 6, 2, 2)),
    written((slice(None), None, 3), (ALL, None, 3), (4, 1, 2, 8)),
    Case(
        Op("torch.linalg.solve_triangular", (Ref(0), Ref(1)), (("upper", False), ("unitriangular", True)), (9,)),
        ((4, 6, 6), (4, 6, 8)),
        solved,
    ),
    Case(Op("torch.tril", (Ref(0), 1), (), (9,)), ((4, 6, 8),), lambda x: x.tril(1)),
    Case(Op("torch.Tensor.triu", (Ref(0),), (), (9,)), ((4, 6, 8),), lambda x: x.triu()),
    Case(
        Op("_grouped_mm", (Ref(0), Ref(1)), (("offs", Ref(2)), ("bias", None)), (9,)),
        ((8, 96), (3, 96, 96)),
        grouped,
        torch.bfloat16,
        (OFFSETS,),
    ),
]


def parts(x: Tensor, layout: Layout, ranks: int) -> list[Tensor]:
    """What the ranks have of a tensor."""
    if isinstance(layout, Shard):
        return [each.clone() for each in x.chunk(ranks, layout.dim)]
    if isinstance(layout, Partial):
        terms = [torch.randn_like(x) for _ in range(ranks - 1)]
        return [*terms, x - sum(terms)]
    return [x.clone() for _ in range(ranks)]


def joined(local: Sequence[Tensor], layout: Layout) -> Tensor | None:
    """The tensor of which the ranks have this; `None` where they have no such thing."""
    if isinstance(layout, Shard):
        rest = {tuple(size for dim, size in enumerate(each.shape) if dim != layout.dim) for each in local}
        return torch.cat(list(local), layout.dim) if len(rest) == 1 else None
    if len({each.shape for each in local}) > 1:
        return None
    if isinstance(layout, Partial):
        return torch.stack(list(local)).sum(0)
    return local[0] if all(near(each, local[0]) for each in local) else None


def near(a: Tensor | None, b: Tensor) -> bool:
    if a is None or a.shape != b.shape:
        return False
    return torch.allclose(a, b, **({"rtol": 0.05, "atol": 0.5} if b.dtype is torch.bfloat16 else {}))


def layouts_of(shape: tuple[int, ...], ranks: int) -> list[Layout]:
    cuts: list[Layout] = [Shard(dim) for dim, size in enumerate(shape) if size >= ranks]
    return [REPLICATE, *cuts, Partial()]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_says_what_torch_does(case: Case, ranks: int) -> None:
    torch.manual_seed(0)
    tensors = [(torch.randn(shape, dtype=torch.float64) / 2).to(case.dtype).requires_grad_() for shape in case.shapes]
    result = case.run(*tensors, *case.whole)
    gradient = torch.randn_like(result)
    gradients = torch.autograd.grad(result, tensors, gradient)
    rule = rule_of(case.op.name)
    assert rule is not None
    verdicts: Counter[str] = Counter()
    for layouts in itertools.product(*(layouts_of(shape, ranks) for shape in case.shapes)):
        local = [parts(x.detach(), layout, ranks) for x, layout in zip(tensors, layouts, strict=True)]
        if any(len(each) != ranks for each in local):  # torch makes fewer chunks
            continue
        ins = [[each[rank].requires_grad_() for each in local] for rank in range(ranks)]

        def number(size: Size, rank: int, ins: list[list[Tensor]] = ins) -> int:
            assert isinstance(size.origin, Dim)
            return ins[rank][size.origin.value].shape[size.origin.dim]

        every = (*zip(case.shapes, layouts, strict=True), *((tuple(x.shape), REPLICATE) for x in case.whole))
        operands = tuple(Operand(shape, layout) for shape, layout in every)
        found: tuple[Layout, ...] | Refusal
        try:
            found = rule(Run(case.op, operands, (tuple(result.shape),), ranks, number))
        except Refusal as refusal:
            found = refusal
        outs: list[Tensor] | None
        try:
            outs = [case.run(*each, *case.whole) for each in ins]
        except (RuntimeError, IndexError):
            outs = None
        if isinstance(found, Refusal):
            verdicts[found.fault] += 1
            assert found.crashes in (None, outs is None), (layouts, found.text)
            if outs is not None and found.fault is not Fault.UNKNOWN:
                right = [each for each in layouts_of(tuple(result.shape), ranks) if near(joined(outs, each), result)]
                assert not right, (layouts, found.text, right)
            continue
        verdicts["right"] += 1
        assert outs is not None, layouts
        assert near(joined(outs, found[0]), result), layouts
        arriving = parts(gradient, for_gradient(found[0]), ranks)
        back = [torch.autograd.grad(out, x, g) for out, x, g in zip(outs, ins, arriving, strict=True)]
        for index, layout in enumerate(layouts):
            pulled = pull(found[0], layout, for_gradient(found[0]))
            assert pulled is not None, layouts
            assert near(joined([each[index] for each in back], pulled), gradients[index]), (layouts, pulled)
    assert verdicts["right"] > 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_is_said_of_dtensors(case: Case) -> None:
    rule = rule_of(case.op.name)
    assert rule is not None
    cut = tuple(Operand(shape, Shard(0)) for shape in (*case.shapes, *(tuple(x.shape) for x in case.whole)))
    with pytest.raises(Refusal) as refusal:
        rule(Run(case.op, cut, (case.shapes[0],), 2, lambda size, _: size.number, distributed=True))
    assert refusal.value.fault is Fault.UNKNOWN


@pytest.mark.parametrize(("stop", "fits"), [(3, False), (6, True), (9, True)])
@pytest.mark.parametrize("name", ["torch.Tensor.__getitem__", "torch.Tensor.__setitem__"])
def test_a_range_by_a_length_that_was_read_off_a_part(name: str, stop: int, fits: bool) -> None:
    index = (ALL, Slice(None, Size(2 * stop, Dim(7, 1)), None))
    op = Op(name, (Ref(0), index, *((0.0,) if "set" in name else ())), (), (9,))
    rule = rule_of(name)
    assert rule is not None
    for layout in (REPLICATE, Shard(0)):
        run = Run(op, (Operand((4, 6), layout),), ((4, 6),), 2, lambda *_: stop)
        if fits:  # what is behind the end of a tensor does not count
            assert rule(run) == (layout,)
        else:
            with pytest.raises(Refusal) as refusal:
                rule(run)
            assert refusal.value.fault is Fault.LENGTH
