"""Every operator's rule against the operator itself, which each rank runs on its part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from planlang.analysis.flow.operators import RULES, Operand, Refusal, Run
from planlang.layout import Layout, Partial, Replicate, Shard, shard_size
from planlang.model.graph import Argument, Dim, Op, Other, Ref, Size, Slice
from tests.flow.calls import NOT_COMPARED, Call, Length, calls
from tests.flow.test_conv_rules import CASES

# Those that are held against torch in `test_conv_rules`, with arguments of their own.
ELSEWHERE = {case.op.name.rpartition(".")[2].strip("_") for case in CASES}
COMPARED = sorted(RULES.keys() - NOT_COMPARED - (ELSEWHERE - {"tril", "triu"}))
FROM_NOTHING = {"arange", "zeros", "ones", "full", "tensor", "eye", "linspace", "tril", "triu"}


def leaves(value: Any) -> Iterator[Tensor]:
    """The tensors in arguments or results, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from leaves(each)


def argument(value: Any, operands: list[Tensor]) -> Argument:
    """An argument as the graph has it."""
    match value:
        case Tensor():
            return Ref(next(i for i, each in enumerate(operands) if each is value))
        case Length(operand, dim):
            return Size(operands[operand].shape[dim], Dim(operand, dim))
        case tuple() | list():
            return tuple(argument(each, operands) for each in value)
        case slice():
            return Slice(*(argument(each, operands) for each in (value.start, value.stop, value.step)))
        case None | bool() | int() | float() | str():
            return value
        case _:
            return Other("..." if value is Ellipsis else str(value))


def local(value: Any, operands: list[Tensor], parts: list[Tensor]) -> Any:
    """An argument as a rank's code has it."""
    match value:
        case Tensor():
            return parts[next(i for i, each in enumerate(operands) if each is value)].clone()
        case Length(operand, dim):
            return parts[operand].shape[dim]
        case tuple() | list():
            return type(value)(local(each, operands, parts) for each in value)
        case _:
            return value


def layouts_of(tensor: Tensor) -> list[Layout]:
    """Every layout that a tensor can have."""
    found: list[Layout] = [Replicate(), *(Shard(dim) for dim in range(tensor.ndim))]
    return found + ([Partial("sum"), Partial("avg")] if tensor.is_floating_point() else [])


def split(tensor: Tensor, layout: Layout, ranks: int) -> list[Tensor]:
    """What each rank has of a tensor."""
    match layout:
        case Shard(dim):
            return list(tensor.split([shard_size(tensor.shape[dim], ranks, rank) for rank in range(ranks)], dim))
        case Partial(op):
            terms = [torch.rand_like(tensor) for _ in range(ranks - 1)]
            return [*terms, (tensor if op == "sum" else tensor * ranks) - sum(terms)]
        case _:
            return [tensor] * ranks


def together(parts: list[Tensor], layout: Layout) -> Tensor:
    """The tensor of which the ranks have these parts."""
    match layout:
        case Shard(dim):
            return torch.cat(parts, dim)
        case Partial(op):
            total = torch.stack(parts).sum(0)
            return total if op == "sum" else total / len(parts)
        case _:
            assert all(torch.equal(part.nan_to_num(), parts[0].nan_to_num()) for part in parts)
            return parts[0]


def accepted(call: Call, ranks: int) -> Iterator[tuple[tuple[Layout, ...], tuple[Layout, ...], list[list[Tensor]]]]:
    """For each choice of input layouts that the rule takes: those, its answer, and what each rank computes."""
    operands = list(leaves((call.args, call.kwargs)))
    right = list(leaves(call.run(*local(call.args, operands, operands), **dict(call.kwargs))))
    op = Op(
        "torch.Tensor.mT.__get__" if call.name == "get" else f"torch.Tensor.{call.name}",
        tuple(argument(each, operands) for each in call.args),
        tuple((key, argument(each, operands)) for key, each in call.kwargs),
    )
    for layouts in product(*map(layouts_of, operands)):
        given = tuple(
            Operand(tuple(each.shape), layout, each.is_floating_point())
            for each, layout in zip(operands, layouts, strict=True)
        )
        parts = [split(each, layout, ranks) for each, layout in zip(operands, layouts, strict=True)]

        def number(size: Size, rank: int, parts: list[list[Tensor]] = parts) -> int:
            assert isinstance(size.origin, Dim)
            return parts[size.origin.value][rank].shape[size.origin.dim]

        try:
            answer = RULES[call.name](Run(op, given, tuple(tuple(each.shape) for each in right), ranks, number))
        except Refusal:
            continue
        if call.name == "embedding" and isinstance(layouts[1], Shard) and layouts[1].dim == 0:
            continue  # DTensor masks the ids of other ranks' parts of the vocabulary
        found = []
        for rank in range(ranks):
            own = [each[rank] for each in parts]
            found.append(list(leaves(call.run(*local(call.args, operands, own), **dict(call.kwargs)))))
        yield layouts, answer, [right, *found]


def test_every_operator_with_a_rule_is_called() -> None:
    assert {name for name in COMPARED if not list(calls(name))} == set()


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
@pytest.mark.parametrize("name", COMPARED)
def test_a_rule_says_what_running_the_operator_on_parts_gives(name: str) -> None:
    torch.manual_seed(0)
    taken = cut = 0
    for call, ranks in product(calls(name), (2, 4)):
        for layouts, answer, (right, *found) in accepted(call, ranks):
            taken += 1
            cut += any(layout != Replicate() for layout in layouts)
            said = f"{name}{call.args[1:]} of {[str(each) for each in layouts]} on {ranks}: {[str(a) for a in answer]}"
            assert len(answer) == len(right), said
            for index, (layout, whole) in enumerate(zip(answer, right, strict=True)):
                got = together([each[index] for each in found], layout)
                assert got.shape == whole.shape, said
                rounding = torch.finfo(whole.dtype).eps * 8 if whole.is_floating_point() else 0.0
                assert torch.allclose(got.double(), whole.double(), rounding, rounding, equal_nan=True), said
    assert taken
    assert cut or name in FROM_NOTHING
