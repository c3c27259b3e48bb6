"""A `LocalTensorMode` that runs plain operators without torch's bookkeeping for each call.

torch looks through all arguments three times, saves and restores the state of the random generators around each rank,
and gives a view the storage of its base by three more calls of its own. Here an operator that is neither random nor a
change of sizes in place is called once for each rank, and what comes out is one tensor a rank. Everything else, ranks
whose sizes differ included, goes torch's way. The numbers are the same to the last bit: a test holds that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
from torch import SymInt, Tensor, nn
from torch.distributed._local_tensor import (
    LocalTensor,
    LocalTensorMode,
    _combine_rank_results,
)
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import get_alias_info

aten = torch.ops.aten
T = TypeVar("T")

_PLAIN = (Tensor, nn.Parameter)
_SPECIAL = {"split", "hash_tensor"}  # torch has rules of its own for these


class LeanLocalTensorMode(LocalTensorMode):  # type: ignore[no-untyped-call]
    """As torch's, and faster."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else each call goes through a wrapper for the compiler, which is not at work here

    def __torch_dispatch__(
        self, func: Any, types: tuple[Any, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls `func` for each rank, or leaves it to torch."""
        if not self._disable:
            if DTensor in types:  # it comes back in parts
                return NotImplemented
            answer = SIZES.get(func)
            if answer is not None and type(args[0]) is LocalTensor:
                found = answer(args[0])
                if found is not None:
                    return found
            kind = _kind(func)
            if kind.who != "torch":
                named = kwargs or {}
                tensors = _tensors(self.ranks, args, named)
                if tensors == "plain":
                    return func(*args, **named)
                if tensors in ("local", "none"):
                    return kind.run(func, self.ranks, args, named)
        return super().__torch_dispatch__(func, types, args, kwargs)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Who runs an operator: `torch`, or this module, where it makes a `new` tensor or works `in place`.

    Attributes:
        who: the above.
        views: pairs of an argument and a result that is a view of it.
    """

    who: str
    views: tuple[tuple[int, int], ...] = ()

    def run(self, func: Any, ranks: frozenset[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        results = {}
        for rank in sorted(ranks):
            named = {key: _own(value, rank) for key, value in kwargs.items()} if kwargs else kwargs
            results[rank] = func(*[_own(value, rank) for value in args], **named)
        if self.who == "in place":
            return args[0]
        found = joined(results)
        for argument, result in self.views:  # collectives that are not waited for are known by their storage
            made = found if isinstance(found, Tensor) else found[result]
            for each in made if isinstance(made, list) else (made,):
                torch._functionalize_unsafe_set(each, args[argument])
        return found


@cache
def _kind(func: Any) -> _Kind:
    if getattr(func, "namespace", "") != "aten" or func.overloadpacket.__name__ in _SPECIAL:
        return _Kind("torch")
    if {torch.Tag.nondeterministic_seeded, torch.Tag.inplace_view} & set(func.tags):
        return _Kind("torch")
    arguments, returns = func._schema.arguments, func._schema.returns
    written = [each for each in arguments if each.is_write]
    if not returns:
        return _Kind("torch")
    if not written:
        return _Kind("new", tuple(get_alias_info(func).read_only_alias_match_indexes))
    first = written == list(arguments[:1]) and len(returns) == 1 and returns[0].is_write
    return _Kind("in place" if func._schema.name.endswith("_") and first else "torch")


def _tensors(ranks: frozenset[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What the tensors among the arguments are.

    Returns:
        `none` where there are none, `local` where a rank has its own of one of them, `plain` where all are one for all
        ranks, else `other`, also where a size differs by rank.
    """
    found = "none"
    for value in (*args, *kwargs.values()):
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, LocalTensor):
                if each._ranks != ranks:
                    return "other"
                found = "local"
            elif isinstance(each, Tensor):
                if type(each) not in _PLAIN:
                    return "other"
                if found == "none":
                    found = "plain"
            elif isinstance(each, SymInt | list | tuple | dict):
                return "other"
    return found


def _own(value: Any, rank: int) -> Any:
    if isinstance(value, LocalTensor):
        return value._local_tensors[rank]
    return [_own(each, rank) for each in value] if isinstance(value, list | tuple) else value


def joined(results: dict[int, Any]) -> Any:
    """What all ranks returned, as one: torch's way where sizes, kinds or values differ."""
    values = list(results.values())
    first = values[0]
    if isinstance(first, Tensor):
        return _one(results) if _alike(values) else _combine_rank_results(results, None)
    if isinstance(first, list | tuple) and all(
        isinstance(each, Tensor) and _alike([value[index] for value in values])
        for index, each in enumerate(first)
        if all(len(value) == len(first) for value in values)
    ):
        made = [_one({rank: value[index] for rank, value in results.items()}) for index in range(len(first))]
        return type(first)(made)
    return _combine_rank_results(results, None)


def _alike(tensors: Sequence[Tensor]) -> bool:
    first = tensors[0]
    if first.is_complex() or first.is_neg() or first.requires_grad:
        return False
    shape, stride, dtype, layout = first.shape, first.stride(), first.dtype, first.layout
    return layout is torch.strided and all(
        each.shape == shape and each.stride() == stride and each.dtype is dtype and not each.is_neg()
        for each in tensors[1:]
    )


def _one(parts: dict[int, Tensor]) -> LocalTensor:
    """A tensor of which each rank has its part, all of one shape: what `LocalTensor(parts)` makes."""
    first = next(iter(parts.values()))
    made: LocalTensor = torch.Tensor._make_wrapper_subclass(
        LocalTensor,
        first.shape,
        strides=first.stride(),
        dtype=first.dtype,
        device=first.device,
        layout=first.layout,
        dispatch_sizes_strides_policy="sizes",
    )
    torch._C._set_throw_on_mutable_data_ptr(made)
    made._local_tensors, made._ranks, made._size = parts, frozenset(parts), list(first.shape)
    return made


def _alike_sizes(ask: Callable[[Tensor], T]) -> Callable[[LocalTensor], T | None]:
    """The answer of all ranks, where it is the same."""

    def answer(tensor: LocalTensor) -> T | None:
        first, *others = tensor._local_tensors.values()
        found = ask(first)
        return found if all(ask(other) == found for other in others) else None

    return answer


SIZES: dict[Any, Callable[[LocalTensor], Any]] = {
    aten.dim.default: lambda tensor: len(tensor._size),
    aten.sym_size.default: lambda tensor: tuple(tensor._size),
    aten.sym_stride.default: _alike_sizes(lambda tensor: list(tensor.stride())),
    aten.sym_storage_offset.default: _alike_sizes(Tensor.storage_offset),
    aten.sym_numel.default: _alike_sizes(Tensor.numel),
}
