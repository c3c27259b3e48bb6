"""The ledger: every collective of a forward and a backward pass, by module.

Its counts are those of `torch.distributed.tensor.debug.CommDebugMode` (`benchmarks/ledger.py` holds them against each
other). Bytes depend on batch and length, which are those of the graph that was walked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from planlang.analysis.cost.bytes import WIDTHS, payload_bytes, payload_shape, ring_bytes, tree_shape
from planlang.analysis.coverage import splits_plainly
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.forward import Frame
from planlang.analysis.flow.gradients import Backward
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.state import REPLICATE
from planlang.analysis.flow.tape import Called, Collective, Move
from planlang.analysis.flow.unblocked import unblocked
from planlang.analysis.flow.words import star
from planlang.layout import Layout, Partial
from planlang.plan import ir
from planlang.plan.styles import blocks_of

Phase = Literal["forward", "backward", "deferred"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "deferred")
KINDS: tuple[Collective, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Collectives that are alike.

    Attributes:
        phase: `deferred` for gradients that the backward pass leaves partial: no collective runs in it, and whoever
            uses such a gradient (an optimizer, `clip_grad_norm_`) has torch sum it first.
        module: the modules that they belong to, `model.layers.*.mlp`; for `deferred` the parameter.
        kind: which collective.
        axis: the mesh axis.
        source: the layout before.
        target: the layout after.
        shape: of what a rank puts in.
        is_float: whether it holds floating-point numbers.
        exact: whether a sum cannot depend on its order, see `Move`.
        tree: whether it is half of a sum in one fixed order, whatever the number of ranks.
        certain: whether torch is known to run it: `False` for conversions that DTensor chooses itself by rules that are
            not known here.
        rule: the rule that asks for it, where one does.
        count: how many there are, in all layers.
        payload: bytes that a rank puts into one of them.
        moved: bytes that a rank sends for one of them in a ring.
    """

    phase: Phase
    module: str
    kind: Collective
    axis: str
    source: Layout
    target: Layout
    shape: tuple[int, ...]
    is_float: bool
    exact: bool
    tree: bool
    certain: bool
    rule: ir.Rule | None
    count: int
    payload: int
    moved: int


@dataclass(frozen=True, slots=True)
class Total:
    """Sums over entries: how many collectives, the bytes put in, the bytes moved in rings."""

    count: int
    payload: int
    moved: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """All collectives of a pass on one mesh axis.

    Attributes:
        axis: the mesh axis.
        ranks: its size.
        batch: how many sequences.
        length: how many tokens in each.
        width: bytes of a floating-point number.
        entries: forward ones first, each phase in the order in which it runs.
        complete: whether the plan is right, so that nothing is missing from the entries or would not run at all.
        widths: whether a product or a sum is split plainly, an operator is given a rank's part outside blocks, or
            numbers of it are dropped at random beside blocks, so that what is computed depends on the number of ranks.
    """

    axis: str
    ranks: int
    batch: int
    length: int
    width: int
    entries: tuple[Entry, ...]
    complete: bool
    widths: bool = False

    def totals(self, phase: Phase) -> dict[Collective, Total]:
        """Sums by kind; kinds that do not occur are left out."""
        found = {kind: [each for each in self.entries if each.phase == phase and each.kind == kind] for kind in KINDS}
        return {kind: total(entries) for kind, entries in found.items() if entries}


def total(entries: list[Entry]) -> Total:
    """The sums over entries, each taken as often as it counts."""
    return Total(
        sum(each.count for each in entries),
        sum(each.count * each.payload for each in entries),
        sum(each.count * each.moved for each in entries),
    )


def ledger(walked: Pass, axis: str, width: int) -> Ledger:
    """The ledger of a pass.

    Args:
        walked: both walks.
        axis: the mesh axis that they are about.
        width: bytes of a floating-point number. All floating-point tensors are taken to be of one type.
    """
    setup = walked.frame.setup
    graph, ranks = setup.graph, setup.ranks
    found: dict[tuple[object, ...], Entry] = {}
    if ranks > 1:  # torch runs no collective on an axis of one rank
        for phase, move, times in _moves(walked):
            rule = move.cause.applied.rule if move.cause else None
            # By the rule's identity: it holds a syntax tree, which takes long to hash.
            key = (
                phase,
                star(move.module),
                move.kind,
                move.source,
                move.target,
                move.shape,
                move.exact,
                move.tree,
                move.certain,
                id(rule),
            )
            before = found[key].count if key in found else 0
            found[key] = _entry(phase, move, axis, ranks, width, rule, before + times)
    in_order = tuple(sorted(found.values(), key=lambda each: PHASES.index(each.phase)))
    widths = any(splits_plainly(each.style, setup.kinds.get(name)) for name, each in setup.applied.items())
    widths = widths or next(unblocked(walked), None) is not None
    widths = widths or (setup.drops and any(blocks_of(each.style) for each in setup.applied.values()))
    return Ledger(axis, ranks, graph.batch, graph.length, width, in_order, walked.right, widths)


def _moves(walked: Pass) -> Iterator[tuple[Phase, Move, int]]:
    """Every collective with how often it runs for the places where it was found."""
    for frame, times in _forward(walked.frame):
        for move in frame.trail.moves:
            yield "forward", move, times
    for frame, back, times in _backward(walked.frame, walked.back):
        for move in back.moves:
            yield "backward", move, times
        for parameter in frame.trail.parameters:
            tensor = parameter.tensor
            gradient = back.ends.get(tensor.number)
            if gradient is None or not isinstance(gradient.claim, Partial) or tensor.claim is None:
                continue
            yield "deferred", _summed(parameter.name, tensor.shape, gradient.claim, tensor.claim, tensor.cause), times


def _summed(name: str, shape: tuple[int, ...], partial: Partial, held: Layout, cause: Cause | None) -> Move:
    """The collective that a gradient which stayed partial needs, before it can be used for its parameter."""
    kind: Collective = "all_reduce" if held == REPLICATE else "reduce_scatter"
    return Move(kind, shape, True, partial, name, cause, target=held)


def _forward(frame: Frame) -> Iterator[tuple[Frame, int]]:
    """A frame and those of the layers it calls, with how often each runs."""
    yield frame, 1
    calls = Counter(id(step.frame) for step in frame.trail.steps if isinstance(step, Called))
    below = {id(step.frame): step.frame for step in frame.trail.steps if isinstance(step, Called)}
    for number, times in calls.items():
        yield from ((inner, times * inside) for inner, inside in _forward(below[number]))


def _backward(frame: Frame, back: Backward) -> Iterator[tuple[Frame, Backward, int]]:
    """The same for the walks back: a layer's is another where other gradients arrive."""
    yield frame, back, 1
    calls = Counter(id(walk) for _, walk in back.called)
    below = {id(walk): (step.frame, walk) for step, walk in back.called}
    for number, times in calls.items():
        yield from ((inner, walk, times * inside) for inner, walk, inside in _backward(*below[number]))


def _entry(phase: Phase, move: Move, axis: str, ranks: int, width: int, rule: ir.Rule | None, count: int) -> Entry:
    if move.tree is None:
        shape = payload_shape(move.shape, move.source, move.target, ranks)
    else:
        shape = tree_shape(move.kind, move.shape, ranks)
        width = WIDTHS[move.tree.acc] if move.tree.acc else width
    payload = payload_bytes(shape, is_float=move.is_float, width=width)
    return Entry(
        phase=phase,
        module=star(move.module),
        kind=move.kind,
        axis=axis,
        source=move.source,
        target=move.target,
        shape=shape,
        is_float=move.is_float,
        exact=move.exact,
        tree=move.tree is not None,
        certain=move.certain,
        rule=rule,
        count=count,
        payload=payload,
        moved=ring_bytes(move.kind, payload, ranks),
    )
