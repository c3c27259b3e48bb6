"""What blocks do on a GPU: bits and time of products at the shapes of Qwen3-8B, in bfloat16.

    python -m benchmarks.invariant_gpu [--tokens N ...] [--runs N]

Three questions, one device:

1. Has a product in blocks, as each of 8 ranks computes its own, the bits that one rank has with all 8 blocks in slices
   of its tensors? Forward and backward, column and row, and whole sums in the tree.
2. Has plain cuBLAS, ``x @ W[: N / tp].T``, the bits of its slice of ``x @ W.T``? A plan without sums in its forward
   pass relies on it.
3. How long do blocks take, beside the plain product?

Without a GPU it says so and exits with 2.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from planlang.runtime.invariant.sums import tree_sum

BLOCKS = 8
DEGREES = (2, 4, 8)
HIDDEN, QUERIES, KEYS, MLP = 4096, 4096, 1024, 12288
COLUMN = {"q_proj": (QUERIES, HIDDEN), "k_proj": (KEYS, HIDDEN), "gate_proj": (MLP, HIDDEN)}  # [out, in]
ROW = {"o_proj": (HIDDEN, QUERIES), "down_proj": (HIDDEN, MLP)}
DTYPE = torch.bfloat16


def column(x: Tensor, weight: Tensor, gradient: Tensor, own: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A rank's columns in blocks, as `InvariantColwiseParallel` computes them.

    Args:
        x: [tokens, in].
        weight: [a rank's columns, in].
        gradient: of the output, [tokens, a rank's columns].
        own: how many blocks the rank has.

    Returns:
        The output, the weight's gradient, and each block's term of the input's gradient.
    """
    y, by_weight = torch.empty_like(gradient), torch.empty_like(weight)
    for part, block in zip(y.chunk(own, 1), weight.chunk(own), strict=True):
        torch.mm(x, block.t(), out=part)
    for part, block in zip(by_weight.chunk(own), gradient.chunk(own, 1), strict=True):
        torch.mm(block.t(), x, out=part)
    terms = [torch.mm(g, w) for g, w in zip(gradient.chunk(own, 1), weight.chunk(own), strict=True)]
    return y, by_weight, terms


def row(x: Tensor, weight: Tensor, gradient: Tensor, own: int) -> tuple[list[Tensor], Tensor, Tensor]:
    """A rank's rows in blocks, as `InvariantRowwiseParallel` computes them.

    Args:
        x: [tokens, a rank's inputs].
        weight: [out, a rank's inputs].
        gradient: of the output, [tokens, out].
        own: how many blocks the rank has.

    Returns:
        Each block's term of the output, the weight's gradient, and the input's.
    """
    terms = [torch.mm(a, w.t()) for a, w in zip(x.chunk(own, 1), weight.chunk(own, 1), strict=True)]
    by_x, by_weight = torch.empty_like(x), torch.empty_like(weight)
    for part, block in zip(by_x.chunk(own, 1), weight.chunk(own, 1), strict=True):
        torch.mm(gradient, block, out=part)
    for part, block in zip(by_weight.chunk(own, 1), x.chunk(own, 1), strict=True):
        torch.mm(gradient.t(), block, out=part)
    return terms, by_weight, by_x


def cut(tensor: Tensor, tp: int, dim: int) -> list[Tensor]:
    """Each rank's part, in memory of its own."""
    return [part.contiguous().clone() for part in tensor.chunk(tp, dim)]


def blocked_column(x: Tensor, weight: Tensor, gradient: Tensor, tp: int) -> dict[str, Tensor]:
    """All ranks' columns, one rank after the other, put together."""
    ranks = [column(x, w, g, BLOCKS // tp) for w, g in zip(cut(weight, tp, 0), cut(gradient, tp, 1), strict=True)]
    return {
        "output": torch.cat([each[0] for each in ranks], 1),
        "gradient of the weight": torch.cat([each[1] for each in ranks]),
        "gradient of the input": tree_sum([tree_sum(each[2]) for each in ranks]),
    }


def blocked_row(x: Tensor, weight: Tensor, gradient: Tensor, tp: int) -> dict[str, Tensor]:
    """All ranks' rows, one rank after the other, put together."""
    ranks = [row(a, w, gradient, BLOCKS // tp) for a, w in zip(cut(x, tp, 1), cut(weight, tp, 1), strict=True)]
    return {
        "output": tree_sum([tree_sum(each[0]) for each in ranks]),
        "gradient of the weight": torch.cat([each[1] for each in ranks], 1),
        "gradient of the input": torch.cat([each[2] for each in ranks], 1),
    }


def inputs(shape: tuple[int, int], tokens: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """An input, a weight and the gradient of an output, from a fixed seed."""
    out, width = shape
    source = torch.Generator(device).manual_seed(tokens)
    sizes = ((tokens, width), (out, width), (tokens, out))
    x, weight, gradient = (torch.randn(size, generator=source, device=device).to(DTYPE) for size in sizes)
    return x, weight / width**0.5, gradient


def bits_rows(tokens: int, device: torch.device) -> Iterator[str]:
    """Question 1: for each product, whether tp 2, 4 and 8 have the bits of tp 1."""
    products: list[tuple[str, tuple[int, int], Callable[..., dict[str, Tensor]]]] = [
        *((name, shape, blocked_column) for name, shape in COLUMN.items()),
        *((name, shape, blocked_row) for name, shape in ROW.items()),
    ]
    for name, shape, blocked in products:
        given = inputs(shape, tokens, device)
        one = blocked(*given, 1)
        other = {tp: blocked(*given, tp) for tp in DEGREES}
        for what, right in one.items():
            cells = " | ".join(_said(right, other[tp][what]) for tp in DEGREES)
            yield f"| {name} | {tokens} | {what} | {cells} |"


def slice_rows(tokens: int, device: torch.device) -> Iterator[str]:
    """Question 2: for each column-parallel product, whether a narrower one has the bits of its slice."""
    for name, shape in COLUMN.items():
        x, weight, _ = inputs(shape, tokens, device)
        whole = x @ weight.t()
        cells = " | ".join(_said(whole, torch.cat([x @ part.t() for part in cut(weight, tp, 0)], 1)) for tp in DEGREES)
        yield f"| {name} | {tokens} | {cells} |"


def time_rows(tokens: int, device: torch.device, runs: int) -> Iterator[str]:
    """Question 3: forward and backward of one rank's share, in blocks and plain."""
    for tp in (1, 4, 8):
        for name, shape in COLUMN.items():
            x, weight, gradient = inputs((shape[0] // tp, shape[1]), tokens, device)

            def ours(x: Tensor = x, w: Tensor = weight, g: Tensor = gradient, own: int = BLOCKS // tp) -> object:
                y, by_weight, terms = column(x, w, g, own)
                return y, by_weight, tree_sum(terms)

            yield _timed(name, tokens, tp, ours, _plain(x, weight, gradient), runs)
        for name, shape in ROW.items():
            x, weight, gradient = inputs((shape[0], shape[1] // tp), tokens, device)

            def ours(x: Tensor = x, w: Tensor = weight, g: Tensor = gradient, own: int = BLOCKS // tp) -> object:
                terms, by_weight, by_x = row(x, w, g, own)
                return tree_sum(terms), by_weight, by_x

            yield _timed(name, tokens, tp, ours, _plain(x, weight, gradient), runs)


def _plain(x: Tensor, weight: Tensor, gradient: Tensor) -> Callable[[], object]:
    return lambda: (x @ weight.t(), gradient.t() @ x, gradient @ weight)


def _timed(name: str, tokens: int, tp: int, ours: Callable[[], object], theirs: Callable[[], object], runs: int) -> str:
    for work in (ours, theirs) * 3:
        work()
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(runs)]
    blocked, plain = (statistics.median(each) * 1e6 for each in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    return f"| {name} | {tokens} | {tp} | {blocked:.0f} us | {plain:.0f} us | {ratio:.2f} |"


def _seconds(work: Callable[[], object]) -> float:
    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _said(one: Tensor, other: Tensor) -> str:
    """`equal`, or the share of numbers that differ in a bit."""
    differ = one.contiguous().view(torch.int16) != other.contiguous().view(torch.int16)
    return f"{float(differ.float().mean()):.2%} differ" if bool(differ.any()) else "equal"


def main() -> None:
    parser = argparse.ArgumentParser(description="Bits and time of products in blocks on a GPU.")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 17, 51, 256, 768, 4096])
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here: nothing was measured", file=sys.stderr)
        sys.exit(2)
    device = torch.device("cuda")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}\n")
    print("| product | tokens | of all blocks | tp 2 | 4 | 8 |\n|---|---|---|---|---|---|")
    for tokens in asked.tokens:
        print(*bits_rows(tokens, device), sep="\n", flush=True)
    print("\n| plain product | tokens | tp 2 | 4 | 8 |\n|---|---|---|---|---|")
    for tokens in asked.tokens:
        print(*slice_rows(tokens, device), sep="\n", flush=True)
    print("\n| product | tokens | tp | blocks | plain | ratio |\n|---|---|---|---|---|---|")
    for tokens in asked.tokens:
        print(*time_rows(tokens, device, asked.runs), sep="\n", flush=True)


if __name__ == "__main__":
    main()
