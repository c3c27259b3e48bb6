"""What a module under a style still is: freed in time, copied whole, hooked by its user, sharded further."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from types import MethodType
from typing import Any

import pytest
import torch
from invariant_runs import one_process, same
from test_invariant_styles import Found, Siblings, differing, gradients, once, siblings, simulated, styled
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.modules.module import register_module_full_backward_pre_hook

from planlang.runtime.invariant import (
    InvariantColwiseParallel,
    InvariantRowwiseParallel,
    InvariantSequenceParallel,
    sums,
)
from planlang.runtime.simulate import local
from planlang.runtime.simulate.run import whole

RANKS = (1, 2, 4)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What has to wait for the garbage collector is not freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Scaled(nn.Module):
    """A module with a parameter and a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((16,), 3.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


STYLED: tuple[tuple[nn.Module, Any], ...] = (
    (nn.Linear(64, 64), InvariantColwiseParallel()),
    (nn.Linear(64, 64), InvariantRowwiseParallel()),
    (nn.Embedding(64, 64), InvariantColwiseParallel()),
    (nn.Embedding(64, 64), InvariantRowwiseParallel(input_layouts=Replicate())),
    (Scaled(), InvariantSequenceParallel(use_local_output=True)),
)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("leaf", [False, True])
def test_a_model_and_its_input_are_freed_at_once(leaf: bool) -> None:
    with local.ranks(1) as mesh:
        model = siblings()
        local.spread(model, 1)
        styled(model, mesh)
        given = local.copies(torch.ones(3, 64), 1).requires_grad_()
        x = given if leaf else given * 2
        del given
        y = model.q(x) + model.k(x)
        held = [weakref.ref(each) for each in (model, model.q, model.q.weight, model.o, x, y)]
        del model, x, y
    assert [each() for each in held] == [None] * len(held)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(("module", "style"), STYLED, ids=lambda each: type(each).__name__)
def test_a_styled_module_is_one_of_its_class(module: nn.Module, style: Any) -> None:
    module = copy.deepcopy(module)
    own = type(module)
    keys = list(module.state_dict())
    with local.ranks(1) as mesh:
        local.spread(module, 1)
        assert parallelize_module(module, mesh, style) is module
        assert isinstance(module, own)
        assert type(module) is not own
        assert type(copy.deepcopy(module)) is type(module)
        assert list(module.state_dict()) == keys
        with pytest.raises(ValueError, match="has an invariant style"):
            parallelize_module(module, mesh, style)
        held = weakref.ref(module)
        del module
    assert held() is None


def test_modules_of_one_class_have_one_class_again() -> None:
    one, other = Scaled(), Scaled()
    with local.ranks(1) as mesh:
        for module in (one, other):
            local.spread(module, 1)
            parallelize_module(module, mesh, InvariantSequenceParallel(use_local_output=True))
        x = local.copies(torch.ones(1, 8, 16), 1)
        assert type(one) is type(other)
        twin = copy.deepcopy(one)
        with torch.no_grad():
            one.weight.zero_()
            assert bool((one(x) == 0).all())
            assert bool((twin(x) == 3).all())


def test_a_forward_of_its_own_is_not_lost() -> None:
    module = nn.Linear(64, 64)
    module.forward = lambda x: x  # type: ignore[method-assign]
    with local.ranks(1) as mesh, pytest.raises(ValueError, match="forward of its own"):
        parallelize_module(module, mesh, InvariantColwiseParallel())


def test_a_forward_of_its_own_runs_on_each_block() -> None:
    module, sizes = Scaled(), list[torch.Size]()

    def forward(self: Scaled, x: Tensor) -> Tensor:
        sizes.append(x.shape)
        return x - self.weight

    module.forward = MethodType(forward, module)  # type: ignore[method-assign]
    with local.ranks(1) as mesh:
        local.spread(module, 1)
        parallelize_module(module, mesh, InvariantSequenceParallel(use_local_output=True))
        twin = copy.deepcopy(module)
        with torch.no_grad():
            module.weight.zero_()
        x = local.copies(torch.ones(1, 8, 16), 1)
        assert bool((module(x) == 1).all())
        assert bool((twin(x) == -2).all())
    assert set(sizes) == {torch.Size((1, 1, 16))}


def test_forward_hooks_are_called() -> None:
    def use(model: Siblings, x: Tensor) -> Found:
        seen: list[str] = []
        model.q.register_forward_pre_hook(lambda module, args: seen.append("before"))
        model.q.register_forward_hook(lambda module, args, y: y * 0)
        assert bool((model.q(x) == 0).all())
        assert seen == ["before"]
        return {"y": model(x)}

    simulated(2, use)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The exchanges between ranks, as they come."""
    calls: list[str] = []
    real = sums.collectives.all_to_all_single

    def call(*args: Any, **kwargs: Any) -> Tensor:
        calls.append("all_to_all_single")
        return real(*args, **kwargs)

    monkeypatch.setattr(sums.collectives, "all_to_all_single", call)
    return calls


@pytest.mark.parametrize("everywhere", [False, True], ids=["one by one", "global"])
@pytest.mark.parametrize("tp", RANKS)
def test_hooks_before_the_backward_leave_the_sharing(
    tp: int, everywhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(monkeypatch)

    def use(model: Siblings, x: Tensor) -> Found:
        seen: list[str] = []
        names = {module: name for name, module in model.named_modules()}

        def hook(module: nn.Module, gradient: Any) -> None:
            seen.append(names[module])

        if everywhere:
            handles = [register_module_full_backward_pre_hook(hook)]
        else:
            handles = [each.register_full_backward_pre_hook(hook) for each in (model.q, model.k, model.v)]
        try:
            y = model(x)
            calls.clear()
            y.square().sum().backward()
        finally:
            for handle in handles:
                handle.remove()
        assert {"q", "k", "v"} <= set(seen)
        assert len(seen) == len(set(seen))
        assert len(calls) == (1 if tp > 1 else 0)
        return gradients(model, x) | {"y": y}

    (right,) = simulated(1, once)
    for got in simulated(tp, use):
        assert differing(right, got) == []


def test_a_hook_that_changes_the_gradient_changes_that_of_the_input() -> None:
    def halved(model: Siblings, x: Tensor) -> Found:
        for each in (model.q, model.k, model.v):
            each.register_full_backward_pre_hook(lambda module, gradient: (gradient[0] / 2,))
        return once(model, x)

    def doubled(found: Found) -> Found:
        return {name: each if name == "y" or name.startswith("o.") else each * 2 for name, each in found.items()}

    (right,) = simulated(1, once)
    for got in simulated(2, halved):
        assert differing(right, doubled(got)) == []


def hooked(model: Siblings, x: Tensor) -> Found:
    """Each layer's own term of the input's gradient, as a full backward hook sees it."""
    seen: Found = {}
    for name in ("q", "k", "v"):

        def hook(module: nn.Module, of_inputs: Any, of_outputs: Any, name: str = name) -> None:
            assert name not in seen
            seen[name] = of_inputs[0].clone()

        model.get_submodule(name).register_full_backward_hook(hook)
    return once(model, x) | {f"term {name}": each for name, each in seen.items()}


def test_a_full_backward_hook_sees_the_layers_own_term() -> None:
    """Each layer then has a sum of its own; its bits do not depend on the ranks either."""
    (one,) = simulated(1, hooked)
    right = hooked(siblings(), torch.randn((3, 17, 64), generator=torch.Generator().manual_seed(1)).requires_grad_())
    assert {"term q", "term k", "term v"} <= one.keys()
    for name, each in one.items():
        torch.testing.assert_close(each, right[name].detach(), rtol=1e-4, atol=1e-4)
    for tp in (2, 4, 8):
        for got in simulated(tp, hooked):
            assert [name for name, each in got.items() if not same(one[name], each)] == []


def test_a_hook_on_one_layer_leaves_the_others_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch)

    def use(model: Siblings, x: Tensor) -> Found:
        model.k.register_full_backward_hook(lambda module, of_inputs, of_outputs: None)
        y = model(x)
        calls.clear()
        y.square().sum().backward()
        assert len(calls) == 2
        return {}

    simulated(2, use)


def test_an_input_that_a_hook_replaces_is_not_shared() -> None:
    def use(model: Siblings, x: Tensor) -> Found:
        model.k.register_full_backward_pre_hook(lambda module, gradient: None)
        handle = model.k.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        got = model(x)
        handle.remove()
        right = model.o(nn.functional.silu(model.q(x * 1.5)) * model.k(x * 3.0) + model.v(x * 1.5))
        assert same(got.detach(), right.detach())
        return {}

    simulated(2, use)


def test_torchs_counter_as_it_is_counts_shared_sums() -> None:
    def use(model: Siblings, x: Tensor) -> Found:
        mode = CommDebugMode()  # type: ignore[no-untyped-call]
        with mode:
            model(x).square().sum().backward()
        found = {str(name): count for name, count in mode.get_comm_counts().items() if count}
        assert sum(count for name, count in found.items() if "all_to_all" in name) == 2, found
        return gradients(model, x)

    simulated(2, use)


@pytest.mark.parametrize("alone", ["o", "q"])
def test_fsdp_over_the_styles_changes_no_bits(alone: str) -> None:
    """A projection that is a group of its own is given a tensor of its own, and shares no sum."""
    (right,) = simulated(1, once)
    with one_process("dp", "tp") as mesh:
        model = siblings()
        styled(model, mesh["tp"])
        fully_shard(model.get_submodule(alone), mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        assert isinstance(model.get_submodule(alone), nn.Linear)
        x = torch.randn((3, 17, 64), generator=torch.Generator().manual_seed(1)).requires_grad_()
        got = {name: whole(each.detach()) for name, each in once(model, x).items()}
        assert differing(right, got) == (["x"] if alone == "q" else [])
        torch.testing.assert_close(got["x"], right["x"], rtol=1e-5, atol=1e-5)
