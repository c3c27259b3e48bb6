"""Proves or refutes what a plan `expect`s of a module's boundary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planlang.analysis.assign import Assignment
from planlang.analysis.flow.faults import Probe
from planlang.analysis.flow.findings import Wording
from planlang.analysis.flow.passes import Pass, frames
from planlang.analysis.flow.state import Tensor, normalized
from planlang.analysis.flow.tape import Boundary
from planlang.analysis.flow.words import star, tensor_text
from planlang.analysis.regions import concrete
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.layout import Layout
from planlang.plan import ir


def prove(
    plan: ir.Plan, assignment: Assignment, walked: Sequence[tuple[Probe, Pass]], wording: Wording
) -> list[Finding]:
    """A finding for each expectation that does not hold, or that cannot be decided."""
    expectations = [
        (
            entry,
            sorted(
                {
                    name
                    for number, boxes in found.items()
                    for box in boxes
                    for name in concrete(assignment.sites.all[number], box)
                }
            ),
        )
        for entry, found in assignment.reached
        if isinstance(entry, ir.Expect)
    ]
    findings = []
    for entry, names in expectations:
        first = next(_failures(entry, names, walked, wording), None)
        if first is not None:
            findings.append(first)
    return findings


def _failures(
    entry: ir.Expect, names: Sequence[str], walked: Sequence[tuple[Probe, Pass]], wording: Wording
) -> Iterator[Finding]:
    for probe, each in walked:
        boundaries = _boundaries(each)
        for name in names:
            boundary = boundaries.get(star(name)) if name not in boundaries else boundaries[name]
            if boundary is None:
                yield Finding(
                    code=codes.UNPROVED_EXPECTATION,
                    message=f"nothing is known of `{name}`: the model's forward pass does not call it",
                    place=entry.place,
                    help="expect something of a module that runs",
                )
                return
            yield from _compare(entry, name, boundary, probe, wording)


def _boundaries(each: Pass) -> dict[str, Boundary]:
    """Boundaries by module; a layer that stands for others gives them under their own names too."""
    found: dict[str, Boundary] = {}
    for frame in frames(each.frame):
        for name, boundary in frame.trail.boundaries.items():
            found[name] = boundary
            inside = name.removeprefix(frame.prefix)
            found |= {layer + inside: boundary for layer in frame.layers}
    return found


def _compare(entry: ir.Expect, name: str, boundary: Boundary, probe: Probe, wording: Wording) -> Iterator[Finding]:
    by_name = dict(boundary.keywords)
    pairs: list[tuple[str, Layout | None, Tensor | None]] = []
    pairs += [(f"input {i}", want, _get(boundary.ins, i)) for i, want in enumerate(entry.in_)]
    pairs += [(f"input `{key}`", want, by_name.get(key)) for key, want in entry.keywords]
    pairs += [
        (f"output {i}" if len(entry.out) > 1 else "output", want, _get(boundary.outs, i))
        for i, want in enumerate(entry.out)
    ]
    for which, want, tensor in pairs:
        if want is None:
            continue
        if tensor is None:
            message = f"`{name}` has no {which} that is a tensor"
            yield Finding(
                code=codes.EXPECTATION_REFUTED, message=message, place=entry.place, help="see `planlang show`"
            )
        elif tensor.truth is None:
            yield Finding(
                code=codes.UNPROVED_EXPECTATION,
                message=f"how the {which} of `{name}` lies is not known",
                place=entry.place,
                help="cure the other findings first, or let `planlang verify` decide",
            )
        elif tensor.truth != normalized(want, len(tensor.shape)):
            text = tensor_text(tensor, wording.axis, probe.batch, probe.length)
            yield Finding(
                code=codes.EXPECTATION_REFUTED,
                message=f"the {which} of `{name}` is {tensor.truth}, not {want}",
                place=entry.place,
                notes=(text,),
                help=f"expect `{tensor.truth}`, or change the rule that makes it so",
            )


def _get(tensors: Sequence[Tensor | None], index: int) -> Tensor | None:
    return tensors[index] if index < len(tensors) else None
