"""Bytes of collectives."""

from __future__ import annotations

import pytest

from planlang.analysis.cost.bytes import payload_bytes, payload_shape, ring_bytes
from planlang.analysis.flow.tape import Collective
from planlang.layout import Layout, Partial, Replicate, Shard


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        (Partial(), Replicate(), (3, 10, 32)),
        (Shard(2), Replicate(), (3, 10, 8)),
        (Shard(1), Replicate(), (3, 3, 32)),  # the last rank has 1 of 10 and fills up to 3
        (Partial(), Shard(1), (3, 12, 32)),  # 10 are filled up to 4 parts of 3
        (Shard(2), Shard(1), (3, 12, 8)),
        (Shard(1), Shard(2), (3, 3, 32)),
    ],
    ids=str,
)
def test_what_a_rank_puts_in(source: Layout, target: Layout, shape: tuple[int, ...]) -> None:
    assert payload_shape((3, 10, 32), source, target, 4) == shape


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("all_reduce", 1400), ("reduce_scatter", 700), ("all_gather", 5600), ("all_to_all", 700)],
)
def test_what_a_ring_moves(kind: Collective, sent: int) -> None:
    assert ring_bytes(kind, 800, 8) == sent


def test_a_ring_moves_whole_bytes() -> None:
    assert ring_bytes("all_reduce", 7, 3) == 10


def test_token_numbers_are_int64() -> None:
    assert payload_bytes((3, 10), is_float=False, width=2) == 240
    assert payload_bytes((3, 10), is_float=True, width=2) == 60
