"""Whether all that a training leaves has the same bits on simulated ranks as on one."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from hashlib import sha256

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import parallelize_module

from benchmarks.invariant.models import DTYPES, MODELS, VOCABULARY, Styles, Widths, invariant, plain
from planlang.runtime.simulate import local
from planlang.runtime.ties import record, restore

SHAPES = ((1, 1), (3, 1), (1, 17), (3, 17), (1, 256), (3, 256))
STEPPED = (3, 17)
HEAD = ("model", "type", "batch x length", "tensors", "equal at tp 2", "4", "8", "torch's styles, tp 2", "took")
Digests = dict[str, str]


def bits(
    widths: Widths,
    dtype: torch.dtype,
    tp: int,
    shape: tuple[int, int],
    steps: int,
    styles: Callable[[nn.Module, int], Styles] = invariant,
) -> Digests:
    """Digests of all that a training leaves on `tp` simulated ranks: equal if the bits are, on every rank."""
    gc.collect()  # what the model before left in cycles
    model = widths.build(dtype)
    tokens = torch.randint(1, VOCABULARY, shape, generator=torch.Generator().manual_seed(2))
    labels = tokens.roll(1, -1)
    with local.ranks(tp) as mesh:
        _apply(model, mesh, styles(model, widths.blocks), tp)
        given, wanted = local.copies(tokens, tp), local.copies(labels, tp)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False) if steps else None
        found: Digests = {}
        for step in range(max(steps, 1)):
            model.zero_grad()
            logits = model(input_ids=given).logits
            logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
            loss.backward()  # type: ignore[no-untyped-call]
            if step == 0:
                found |= {"logits": digest(logits, tp), "loss": digest(loss, tp)}
                found |= {f"gradient {name}": digest(p.grad, tp) for name, p in model.named_parameters()}
            if optimizer is not None:
                optimizer.step()
        if steps:
            found |= {f"weight {name}": digest(p, tp) for name, p in model.named_parameters()}
    return found


def _apply(model: nn.Module, mesh: DeviceMesh, styles: Styles, tp: int) -> None:
    """Applies styles module by module, so that not every rank has a copy of the whole model at once."""
    held = record(model)
    for name, module in list(model.named_modules()):
        if name not in styles and not list(module.children()):
            local.spread(module, tp)
    for name, style in styles.items():
        module = model.get_submodule(name)
        if not list(module.children()):  # those inside are spread in their turn
            local.spread(module, tp)
        parallelize_module(module, mesh, style)
    restore(held)


def digest(tensor: Tensor | None, tp: int) -> str:
    """Of the whole tensor, put together from the ranks' parts; `differs` where ranks with the whole do not agree."""
    assert tensor is not None
    tensor = tensor.detach()
    dim = None
    if isinstance(tensor, DTensor):
        (lies,) = tensor.placements
        if not isinstance(lies, Shard):
            tensor = tensor.redistribute(placements=[Replicate()])
        else:
            dim = lies.dim
        tensor = tensor.to_local()
    ranks = local.of_each_rank(tensor, tp)
    wholes = ranks if dim is None else [torch.cat(ranks, dim)]
    found = {_sha(each) for each in wholes}
    return found.pop() if len(found) == 1 else "differs"


def _sha(tensor: Tensor) -> str:
    if not bool(tensor.isfinite().all()):
        return "differs"
    return sha256(tensor.contiguous().flatten().view(torch.uint8).numpy().data).hexdigest()


def equal(one: Digests, other: Digests) -> int:
    """How many tensors are bitwise equal."""
    assert one.keys() == other.keys()
    return sum(one[name] == other[name] != "differs" for name in one)


def rows(name: str, dtype: str, steps: int) -> Iterator[str]:
    """A row of the table for each shape of the batch."""
    widths = MODELS[name]
    for shape in SHAPES:
        start = time.perf_counter()
        count = steps if shape == STEPPED else 0
        one = bits(widths, DTYPES[dtype], 1, shape, count)
        cells = [
            f"{equal(one, bits(widths, DTYPES[dtype], tp, shape, count))}" if tp in widths.degrees else "-"
            for tp in (2, 4, 8)
        ]
        right = bits(widths, DTYPES[dtype], 1, shape, 0, plain)
        other = equal(right, bits(widths, DTYPES[dtype], 2, shape, 0, plain))
        what = f"{shape[0]} x {shape[1]}" + (f", {count} steps" if count else "")
        seconds = time.perf_counter() - start
        counted = " | ".join((str(len(one)), *cells, f"{other} of {len(right)}"))
        yield f"| {name} | {dtype} | {what} | {counted} | {seconds:.0f} s |"
