"""The faults of a plan at several sizes, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from planlang.analysis.flow.backward import Wrong
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.passes import Pass
from planlang.analysis.flow.words import star


@dataclass(frozen=True, slots=True)
class Probe:
    """The circumstances of one pass.

    Attributes:
        kind: which of the graph's passes: `plain`, `masked`, `eager` or `step`.
        batch: how many sequences.
        length: how many tokens in each.
    """

    kind: str
    batch: int
    length: int


def probes(ranks: int) -> tuple[Probe, ...]:
    """The circumstances in which a plan is checked, the one of training first.

    A layout can be right by accident at one size: two ranks, two sequences. So the batch is above, equal to and below
    the number of ranks, and the length a multiple of it, none, and 1. The length is no usual number of heads, so that
    it can be told from one, and at most 64 for usual numbers of ranks, since gated delta nets work in chunks of 64.
    """
    length = ranks * -(-50 // ranks)
    return (
        Probe("plain", ranks + 1, length),
        Probe("masked", ranks + 1, length),
        Probe("eager", ranks + 1, length),
        Probe("plain", ranks, length),
        Probe("plain", 1, length),
        Probe("plain", ranks + 1, length + 1),
        Probe("step", ranks + 1, 1),
        Probe("step", ranks, 1),
    )


@dataclass(slots=True)
class Occurrence:
    """One fault, with all the layers and circumstances in which it was seen.

    Attributes:
        what: as it was seen first.
        probe: where it was seen first.
        layers: the layers.
        seen: all circumstances.
        others: what else has the same origin: gradients of other parameters that are wrong for it.
    """

    what: Conflict | Wrong
    probe: Probe
    layers: set[str] = field(default_factory=set)
    seen: list[Probe] = field(default_factory=list)
    others: list[Wrong] = field(default_factory=list)

    @property
    def unknown(self) -> bool:
        """Whether it is no fault, but something that cannot be decided."""
        return isinstance(self.what, Conflict) and self.what.fault is Fault.UNKNOWN

    def where(self, probes: Iterable[Probe], ranks: int) -> str:
        """In which circumstances alone it happens; empty where always."""
        clean = [probe for probe in probes if probe not in self.seen]
        if not any(probe.kind == "plain" for probe in clean):
            return ""
        if all(probe.length == 1 for probe in self.seen):
            return "for sequences of length 1"
        if all(probe.kind == "masked" for probe in self.seen):
            return "with a padding mask"
        if all(probe.kind == "eager" for probe in self.seen):
            return "with eager attention"
        if all(probe.length % ranks for probe in self.seen):
            return f"for lengths that {ranks} does not divide"
        first = self.seen[0]
        return f"at batch {first.batch} and length {first.length}, though not at all sizes"


def gather(passes: Iterable[tuple[Probe, Pass]]) -> list[Occurrence]:
    """All faults of some passes, in the order of the first pass that has them."""
    found: dict[object, Occurrence] = {}
    for probe, each in passes:
        for key, what, layers in _faults(each):
            occurrence = found.get(key)
            if occurrence is None:
                occurrence = found[key] = Occurrence(what, probe)
            elif isinstance(what, Wrong) and isinstance(occurrence.what, Wrong):
                known = {_name(other) for other in (occurrence.what, *occurrence.others)}
                if _name(what) not in known:
                    occurrence.others.append(what)
            occurrence.layers.update(layers)
            if probe not in occurrence.seen:
                occurrence.seen.append(probe)
    return _roots(list(found.values()))


def _roots(found: list[Occurrence]) -> list[Occurrence]:
    """Without what only repeats another: the same rule at fault in another attention path, or gradients behind a fault.

    Where the forward pass goes wrong, contributions to a gradient do not add up behind it.
    """
    conflicts = [each for each in found if isinstance(each.what, Conflict) and not each.unknown]
    plain = {_root(each) for each in conflicts if any(probe.kind == "plain" for probe in each.seen)}

    def repeats(each: Occurrence) -> bool:
        if isinstance(each.what, Wrong):
            return bool(conflicts) and each.what.kind in ("differs", "claim")
        elsewhere = all(probe.kind in ("masked", "eager") for probe in each.seen)
        return elsewhere and _root(each) in plain

    return [each for each in found if not repeats(each)]


def _root(occurrence: Occurrence) -> object:
    what = occurrence.what
    assert isinstance(what, Conflict)
    return (what.fault, star(what.module), _rule(blamed(what)))


def _faults(each: Pass) -> Iterator[tuple[object, Conflict | Wrong, tuple[str, ...]]]:
    for conflict, layers in each.conflicts:
        cause = blamed(conflict)
        yield (
            (conflict.fault, star(conflict.module), conflict.operator, _rule(cause)),
            conflict,
            layers,
        )
    for wrong, layers in each.wrong:
        if wrong.split:  # many gradients go wrong at one place
            yield (wrong.kind, star(wrong.split.module), wrong.split.operator, _own(wrong)), wrong, layers
        else:
            yield (wrong.kind, _name(wrong)), wrong, layers


def _own(wrong: Wrong) -> str:
    """A parameter that itself meets the cut tensor is a fault of its own; others follow from an activation's."""
    split = wrong.split
    direct = split is not None and split.tensor is wrong.tensor
    return _name(wrong) if direct or wrong.kind == "doubled" else ""


def _name(wrong: Wrong) -> str:
    return star(wrong.parameter.name) if wrong.parameter else ""


def _rule(cause: Cause | None) -> object:
    return None if cause is None else (id(cause.applied.rule) if cause.applied.rule else star(cause.module))


def blamed(conflict: Conflict) -> Cause | None:
    """The rule to blame for a conflict: its own, else that of the first tensor that has one."""
    if conflict.cause:
        return conflict.cause
    return next((tensor.cause for tensor in conflict.tensors if tensor.cause), None)
