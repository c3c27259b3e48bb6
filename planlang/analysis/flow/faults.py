"""The faults of a plan at several sizes, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.gradients import Wrong
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
    """One fault, with all the modules, layers and circumstances in which it was seen.

    Attributes:
        what: as it was seen first.
        probe: where it was seen first.
        layers: the layers.
        seen: all circumstances.
        others: what else has the same origin: the same fault in a sibling, or another gradient that is wrong for it.
        also: other faults for which the same rule is to blame.
    """

    what: Conflict | Wrong
    probe: Probe
    layers: set[str] = field(default_factory=set)
    seen: list[Probe] = field(default_factory=list)
    others: list[Conflict | Wrong] = field(default_factory=list)
    also: list[Occurrence] = field(default_factory=list)

    @property
    def unknown(self) -> bool:
        """Whether it is no fault, but something that cannot be decided."""
        return isinstance(self.what, Conflict) and self.what.fault is Fault.UNKNOWN

    @property
    def all(self) -> tuple[Conflict | Wrong, ...]:
        """All that it stands for."""
        return (self.what, *self.others)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules in which it goes wrong, each once, in star form."""
        return tuple(dict.fromkeys(star(each.module) for each in self.all))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters whose gradients are wrong, each once, in star form."""
        return tuple(dict.fromkeys(name for each in self.all if isinstance(each, Wrong) and (name := _name(each))))

    @property
    def spots(self) -> frozenset[tuple[object, ...]]:
        """What is gone once it is cured: each fault by its kind, module, operator and rule or parameter."""
        return frozenset(map(_spot, self.all)).union(*(each.spots for each in self.also))

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
    """All faults of some passes, in the order of the first pass that has them, without what only follows from others.

    Modules side by side that a rule gets wrong in one way are one fault.
    """
    found: dict[object, Occurrence] = {}
    for probe, each in passes:
        for key, what, layers in _faults(each):
            occurrence = found.get(key)
            if occurrence is None:
                occurrence = found[key] = Occurrence(what, probe)
            elif _spot(what) not in occurrence.spots:
                occurrence.others.append(what)
            occurrence.layers.update(layers)
            if probe not in occurrence.seen:
                occurrence.seen.append(probe)
    return _roots(list(found.values()))


def spots(passes: Iterable[tuple[Probe, Pass]]) -> dict[tuple[object, ...], Conflict | Wrong]:
    """All faults of some passes, what follows from others too, by kind, module, operator and rule or parameter."""
    return {_spot(what): what for _, each in passes for _, what, _ in _faults(each)}


def _roots(found: list[Occurrence]) -> list[Occurrence]:
    """Without what only follows from another fault: what other rules make of what a rule to blame has made.

    In a pass that goes wrong forward, contributions to a gradient do not add up behind it either, and what is not known
    there cannot be followed back through other layers. Faults in the forward pass for which one rule is to blame are
    one mistake.
    """
    conflicts = [(each.what, each.seen) for each in found if isinstance(each.what, Conflict) and not each.unknown]
    broken = {probe for _, seen in conflicts for probe in seen}
    error = any(probe.length != 1 for probe in broken)  # else all of them are warnings, which hide no error
    forward = {probe for what, seen in conflicts if not what.backward for probe in seen}
    first: dict[object, Occurrence] = {}
    kept: list[Occurrence] = []
    for each in found:
        if isinstance(each.what, Wrong):
            if each.what.kind not in ("differs", "claim") or not (error or broken.issuperset(each.seen)):
                kept.append(each)
            continue
        if each.what.backward and forward.issuperset(each.seen):
            continue
        rule = _rule(blamed(each.what))
        if each.unknown or rule is None:
            kept.append(each)
        elif rule in first:
            first[rule].also.append(each)
        elif not _implied(each.what) & first.keys():
            first[rule] = each
            kept.append(each)
    return kept


def _implied(what: Conflict) -> set[object]:
    """All rules that have a part in a conflict: of the tensors, and of those that sizes were taken from."""
    return {_rule(cause) for cause in involved_causes(what)}


def involved_causes(what: Conflict) -> list[Cause]:
    """Every module and rule that has a part in a conflict."""
    involved = (*what.tensors, *what.sized)
    causes = [what.cause, *(cause for tensor in involved for cause in (tensor.cause, tensor.origin))]
    return [cause for cause in causes if cause is not None]


def _faults(each: Pass) -> Iterator[tuple[object, Conflict | Wrong, tuple[str, ...]]]:
    for conflict, layers in each.conflicts:
        rule = _rule(blamed(conflict))
        yield (conflict.fault, _beside(conflict.module, rule), conflict.operator, rule), conflict, layers
    for wrong, layers in each.wrong:
        if wrong.split:  # many gradients go wrong at one place
            rule = _rule(wrong.split.cause)
            yield (wrong.kind, _beside(wrong.split.module, rule), wrong.split.operator, _own(wrong)), wrong, layers
        else:
            rule = _rule(wrong.cause)
            yield (wrong.kind, _beside(_name(wrong), rule), rule), wrong, layers


def _beside(name: str, rule: object) -> str:
    """What the modules side by side have in common that follow one rule."""
    name = star(name)
    return name.rpartition(".")[0] if rule is not None else name


def _own(wrong: Wrong) -> str:
    """A parameter that itself meets the cut tensor is a fault of its own; others follow from an activation's."""
    split = wrong.split
    direct = split is not None and split.tensor is wrong.tensor
    return _name(wrong).rpartition(".")[2] if direct or wrong.kind == "doubled" else ""


def _name(wrong: Wrong) -> str:
    return star(wrong.parameter.name) if wrong.parameter else ""


def _spot(what: Conflict | Wrong) -> tuple[object, ...]:
    if isinstance(what, Conflict):
        return (what.fault, star(what.module), what.operator, _rule(blamed(what)))
    return (what.kind, star(what.module), _name(what))


def _rule(cause: Cause | None) -> object:
    return None if cause is None else (id(cause.applied.rule) if cause.applied.rule else star(cause.module))


def blamed(conflict: Conflict) -> Cause | None:
    """The rule to blame for a conflict: its own, else that of the first tensor that has one."""
    if conflict.cause:
        return conflict.cause
    return next((tensor.cause for tensor in (*conflict.tensors, *conflict.sized) if tensor.cause), None)
