"""The wording of what the walks found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planlang.analysis.flow.cause import Applied, Cause
from planlang.analysis.flow.change import Change
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.faults import Occurrence, Probe, blamed
from planlang.analysis.flow.gradients import Wrong
from planlang.analysis.flow.state import Tensor
from planlang.analysis.flow.words import and_list, module_text, operator_text, star, tensor_text
from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code
from planlang.diagnostics.finding import Finding, Related
from planlang.plan import ir
from planlang.plan.spell import style_text
from planlang.source import Place

_CODES: dict[Fault, Code] = {
    Fault.CLAIM: codes.FALSE_CLAIM,
    Fault.MIXED: codes.MIXED_TENSORS,
    Fault.MISMATCH: codes.LAYOUTS_DO_NOT_FIT,
    Fault.PARTIAL: codes.PARTIAL_SUM_LEAKS,
    Fault.REDUCED: codes.SHARDED_REDUCTION,
    Fault.CUT: codes.RESHAPE_CUTS_SHARDS,
    Fault.PACKED: codes.PACKED_PROJECTION,
    Fault.LENGTH: codes.LOCAL_LENGTH,
    Fault.REFUSED: codes.CONVERSION_REFUSED,
    Fault.HEAD: codes.HEAD_CONTRACT,
    Fault.CALL: codes.CALL_MISMATCH,
    Fault.UNEVEN: codes.UNEVEN_SHARDS,
    Fault.UNKNOWN: codes.UNCHECKED_OPERATOR,
}
_GRADIENTS = {
    "incomplete": codes.INCOMPLETE_GRADIENT,
    "doubled": codes.DOUBLED_GRADIENT,
    "differs": codes.INCOMPLETE_GRADIENT,
    "claim": codes.INCOMPLETE_GRADIENT,
}
MOST_NAMES = 4
MOST_ALSO = 2


@dataclass(frozen=True, slots=True)
class Wording:
    """What the wording needs to know besides a fault.

    Attributes:
        plan: the plan; its own line is the place where no rule is to blame.
        axis: the mesh axis.
        ranks: its size.
        probes: all circumstances that were looked at.
        ruled: the styles of the modules that a rule reaches, by their names.
    """

    plan: ir.Plan
    axis: str
    ranks: int
    probes: Sequence[Probe]
    ruled: Mapping[str, Applied] = field(default_factory=dict)

    def finding(self, occurrence: Occurrence, change: Change | None = None, left_out: Place | None = None) -> Finding:
        """One finding for a fault.

        Args:
            occurrence: the fault.
            change: what cures it; the finding is placed at the rule that it changes.
            left_out: where the plan says that the modules which get a rule by this change have none.
        """
        help = change.text if change else ""
        if isinstance(occurrence.what, Conflict):
            found = self._conflict(occurrence, occurrence.what, help)
        else:
            found = self._wrong(occurrence, occurrence.what, help)
        old = change.old if change else None
        place = old.rule.place if old and old.rule else left_out
        if change is None or place is None or place == found.place:
            return found
        label = f"`{change.modules[0]}` is {style_text(old.style)}" if old else ""
        shown = self._blamed(occurrence, found)
        related = [each for each in (*shown, *found.related) if each.place != place]
        return replace(found, place=place, label=label, related=tuple(related))

    def _blamed(self, occurrence: Occurrence, finding: Finding) -> Iterator[Related]:
        """The rule that a fault shows at, where the finding is placed at another."""
        what = occurrence.what
        cause = blamed(what) if isinstance(what, Conflict) else what.cause or (what.split.cause if what.split else None)
        place = _place(cause)
        if cause and place is not None and place == finding.place:
            yield Related(place=place, message=f"the rule of `{star(cause.module)}`")

    def _conflict(self, occurrence: Occurrence, conflict: Conflict, help: str) -> Finding:
        code, cause = _CODES[conflict.fault], blamed(conflict)
        place = _place(cause) or self.plan.place
        message = self._message(occurrence, conflict)
        notes = [*self._tensors(conflict.tensors or conflict.sized, occurrence), *_consequence(conflict)]
        others = [self._message(each, each.what) for each in occurrence.also if isinstance(each.what, Conflict)]
        notes += [f"also {other}" for other in others[:MOST_ALSO]]
        if len(others) > MOST_ALSO:
            notes.append(f"and {len(others) - MOST_ALSO} more of this kind")
        return Finding(
            code=self._weight(code, occurrence),
            message=message,
            place=place,
            label=_label(cause, occurrence.layers),
            related=_related(place, (*_causes(conflict.tensors), *self._own(conflict))),
            notes=tuple(notes),
            help=help or _HELP.get(conflict.fault, ""),
        )

    def _own(self, conflict: Conflict) -> Iterator[Cause]:
        """The rule of the module in which it goes wrong."""
        if conflict.module in self.ruled:
            yield Cause(conflict.module, self.ruled[conflict.module])

    def _message(self, occurrence: Occurrence, conflict: Conflict) -> str:
        where = module_text(conflict.module, occurrence.layers, occurrence.modules)
        if conflict.operator and not conflict.operator.startswith(("=", "<", ">", "!")):
            where += f", `{operator_text(conflict.operator)}`"
        return f"{where}: {self._only(occurrence)}{_clause(conflict)}"

    def _wrong(self, occurrence: Occurrence, wrong: Wrong, help: str) -> Finding:
        code = _GRADIENTS[wrong.kind]
        names = _names(occurrence.parameters)
        cause = wrong.cause or (wrong.split.cause if wrong.split else None)
        place = _place(cause) or self.plan.place
        only = self._only(occurrence)
        notes = []
        if wrong.kind == "doubled":
            message = f"{only}the gradient of {names} is summed over `{self.axis}` though every rank has it whole"
            notes.append(
                f"it comes out {self.ranks} times too large; the forward pass is right, and no error is raised"
            )
        elif wrong.kind == "incomplete":
            message = f"{only}each rank has only its own part's term of the gradient of {names}"
            notes.append("the forward pass is right and no error is raised; the weights of the ranks drift apart")
        elif names:
            message = f"{only}the gradient of {names} is put together from parts that do not add up"
        else:
            at = module_text(wrong.module, occurrence.layers)
            message = f"{at}: {only}a gradient is put together from parts that do not add up"
        if wrong.split:
            at = module_text(wrong.split.module, occurrence.layers)
            met = tensor_text(wrong.split.tensor, self.axis, occurrence.probe.batch, occurrence.probe.length)
            notes.append(f"in {at}, `{operator_text(wrong.split.operator)}` uses {met}, whole, with a part of a tensor")
        return Finding(
            code=self._weight(code, occurrence),
            message=message,
            place=place,
            label=_label(cause, occurrence.layers),
            notes=tuple(notes),
            help=help or _GRADIENT_HELP[wrong.kind],
        )

    def _only(self, occurrence: Occurrence) -> str:
        where = occurrence.where(self.probes, self.ranks)
        return f"{where}, " if where else ""

    def _weight(self, code: Code, occurrence: Occurrence) -> Code:
        """What goes wrong for a lone token alone is no fault of a plan for training."""
        lone = all(probe.length == 1 for probe in occurrence.seen)
        return codes.FAILS_FOR_LENGTH_ONE if lone and code is not codes.UNCHECKED_OPERATOR else code

    def _tensors(self, tensors: Iterable[Tensor], occurrence: Occurrence) -> list[str]:
        """A line for each tensor involved, with where it comes from."""
        lines = []
        for tensor in list(tensors)[:3]:
            if tensor.truth is None:
                continue
            text = tensor_text(tensor, self.axis, occurrence.probe.batch, occurrence.probe.length)
            source = star(tensor.source) if len(occurrence.layers) > 1 else tensor.source
            unruled = "" if tensor.source in self.ruled else ", which no rule reaches"
            come = f" from `{source}`{unruled}" if source else ""
            lines.append(text + come)
        return list(dict.fromkeys(lines))


def _clause(conflict: Conflict) -> str:
    if conflict.fault is Fault.CLAIM:
        liar = conflict.tensors[0] if conflict.tensors else None
        if liar is None:
            return conflict.text
        taken = "what it computes with" if conflict.operator else "its input"
        return f"{taken} is declared to be {liar.claim}, and it is {liar.truth}: {conflict.text}"
    return conflict.text


def _consequence(conflict: Conflict) -> list[str]:
    if conflict.fault is Fault.UNKNOWN:
        return ["what comes after it is not checked, up to the next module that a rule gives a layout"]
    if conflict.crashes is True:
        return ["when it runs, torch raises an error there"]
    if conflict.crashes is False:
        return ["when it runs, no error is raised and the result is wrong"]
    return ["when it runs, torch raises an error there or later, or the result is wrong"]


def _names(names: Sequence[str]) -> str:
    shown = [f"`{name}`" for name in names[:MOST_NAMES]]
    if len(names) > MOST_NAMES:
        shown.append(f"{len(names) - MOST_NAMES} others")
    return and_list(shown)


def _place(cause: Cause | None) -> Place | None:
    return cause.applied.rule.place if cause and cause.applied.rule else None


def _label(cause: Cause | None, layers: Iterable[str]) -> str:
    if cause is None or cause.applied.rule is None:
        return ""
    many = len(set(layers)) > 1
    return f"`{star(cause.module) if many else cause.module}` is {style_text(cause.applied.style)}"


def _causes(tensors: Iterable[Tensor]) -> Iterator[Cause]:
    return (cause for tensor in tensors for cause in (tensor.cause, tensor.origin) if cause)


def _related(place: Place | None, causes: Iterable[Cause]) -> tuple[Related, ...]:
    """The other rules involved."""
    found: dict[Place, Related] = {}
    for cause in causes:
        other = _place(cause)
        if other and other != place:
            found.setdefault(other, Related(place=other, message=f"the rule of `{star(cause.module)}`"))
    return tuple(found.values())


_HELP = {
    Fault.MIXED: "give both sides one kind: `local=true` makes a plain tensor of a rule's output",
    Fault.MISMATCH: "give the modules that feed this one rules whose outputs lie alike",
    Fault.PARTIAL: "end the sum where it arises: `out=replicate` or `out=shard(…)`",
    Fault.REDUCED: "give the module its input whole, or shard another dimension",
    Fault.CUT: "shard whole heads, or let the module before it return `out=replicate`",
    Fault.PACKED: "a packed projection cannot be cut into contiguous parts: write `colwise(out=replicate)`",
    Fault.LENGTH: "keep a DTensor there (`local=false`), whose length is the global one, or give it whole",
    Fault.CLAIM: "write the layout in which the input arrives, or convert it with `prepare`",
    Fault.REFUSED: "convert to `replicate` or `shard(…)`",
    Fault.HEAD: "write `out=replicate`, or `local=false` for a loss that takes DTensors",
    Fault.CALL: "see how the model calls the module: `planlang show` with `--model`",
    Fault.UNEVEN: "choose a size of the mesh that divides it, or leave the module whole",
    Fault.UNKNOWN: "`planlang verify` decides it by running the plan",
}
_GRADIENT_HELP = {
    "incomplete": "let its gradient be summed: `sequence(dim=…, local=true)` or `replicate(grad=sum)` on the module",
    "doubled": "its input arrives whole: drop the rule, or write `replicate(grad=none)`",
    "differs": "give the modules that share this tensor rules whose inputs lie alike",
    "claim": "give the modules that share this tensor rules whose inputs lie alike",
}
