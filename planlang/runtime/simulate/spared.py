"""What torch is spared while ranks run: work that it does for each rank, and again for each mesh, to one end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import SymInt, Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import _local_tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed._local_tensor import LocalTensor, _map_to_rank_local_val
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import _disable_current_modes

from planlang.runtime.simulate.lean import SIZES, joined

_MOST = 20_000
_METAS: dict[Any, Any] = {}  # the shape, strides and type of results, by operator and arguments, for all meshes


@contextmanager
def lean() -> Iterator[None]:
    """Inside, sizes are asked for without a mode, and shapes of results on one fake tensor, not on one a rank."""
    whole, outside = ShardingPropagator._propagate_tensor_meta_non_cached, LocalTensor.__dict__["__torch_dispatch__"]
    each_rank, fake = _local_tensor._for_each_rank_run_func, FakeTensorMode()

    def alone(propagator: ShardingPropagator, schema: OpSchema) -> Any:
        key = _key((schema.op, schema.args_schema, schema.kwargs_schema))
        if key is None:
            return whole(propagator, schema)
        if key not in _METAS:
            if len(_METAS) >= _MOST:
                _METAS.clear()
            with _disable_current_modes(), fake:  # the global shape is the same on all ranks
                _METAS[key] = whole(propagator, schema)
        return _METAS[key]

    def answered(
        cls: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        answer = SIZES.get(func)
        found = answer(args[0]) if answer is not None and type(args[0]) is LocalTensor else None
        return outside.__func__(cls, func, types, args, kwargs) if found is None else found

    def called(func: Any, ranks: frozenset[int], args: Any, kwargs: dict[str, Any], *, alias: bool = True) -> Any:
        if alias or isinstance(func, OpOverload):
            return each_rank(func, ranks, args, kwargs, alias=alias)
        return joined({rank: func(*_of(args, rank), **_of(kwargs, rank)) for rank in sorted(ranks)})

    with (
        replaced(ShardingPropagator, "_propagate_tensor_meta_non_cached", alone),
        replaced(LocalTensor, "__torch_dispatch__", classmethod(answered)),
        replaced(_local_tensor, "_for_each_rank_run_func", called),
    ):
        yield


def _of(value: Any, rank: int) -> Any:
    """What a rank has of arguments of a function of DTensor's, which takes numbers that differ by rank as well."""
    if isinstance(value, list | tuple):
        return type(value)(_of(each, rank) for each in value)
    if isinstance(value, dict):
        return {key: _of(each, rank) for key, each in value.items()}
    return _map_to_rank_local_val(value.wait() if isinstance(value, AsyncCollectiveTensor) else value, rank)


def _key(value: Any) -> Any:
    """What the shape of an operator's result depends on; `None` where a size differs by rank or nothing is known."""
    if isinstance(value, DTensorSpec):
        meta = value.tensor_meta
        return None if meta is None or any(isinstance(each, SymInt) for each in (*meta.shape, *meta.stride)) else meta
    if isinstance(value, dict):
        value = (*value, *value.values())
    if isinstance(value, list | tuple):
        keys = tuple(map(_key, value))
        return None if None in keys else (type(value), keys)
    return None if isinstance(value, SymInt | Tensor) else (type(value), value)


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Inside, something of a class or module of torch is another."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
