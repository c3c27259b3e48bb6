"""The forward walk: from the layouts of inputs and parameters to the layout of every tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from planlang.analysis.flow import boundaries, dtensors, strides
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.conflict import Conflict, Fault
from planlang.analysis.flow.operators import (
    Operand,
    Refusal,
    Run,
    attention,
    contractions,
    pointwise,
    reductions,
    rule_of,
    views,
)
from planlang.analysis.flow.operators.base import tensors
from planlang.analysis.flow.placing import placed
from planlang.analysis.flow.setup import Setup
from planlang.analysis.flow.sizes import Sizes
from planlang.analysis.flow.state import REPLICATE, Gaps, Tensor
from planlang.analysis.flow.tape import (
    Boundary,
    Called,
    Computed,
    Trail,
)
from planlang.layout import Layout, Partial
from planlang.model.graph import (
    Argument,
    Call,
    Dim,
    Enter,
    Event,
    Guard,
    Leave,
    Op,
    Ref,
    Size,
    Value,
    refs,
    sized,
)
from planlang.plan.styles import Custom

# Operators that look at their other tensors for no more than a dtype or a shape.
_FIRST_ONLY = {"type_as", "to", "new_zeros", "new_ones", "new_full", "new_empty"}
_FIRST_ONLY |= {"zeros_like", "ones_like", "empty_like", "full_like"}


@dataclass(slots=True)
class _Scope:
    """A module that runs: its name, its rule, and what the names of its inputs meant outside."""

    module: str
    outside: dict[int, Tensor | None]
    opaque: bool = False
    dtensors: bool = False
    leaf: bool = True


class Frame:
    """One list of events, walked: the main list, or the body of a layer."""

    def __init__(self, setup: Setup, events: Sequence[Event], prefix: str = "") -> None:
        self.setup = setup
        self.prefix = prefix
        self.env: dict[int, Tensor] = {}
        self.all: list[Tensor] = []
        self.trail = Trail()
        self.layers: list[str] = []
        self.backward_memo: dict[object, object] = {}
        self.inputs: dict[int, Tensor] = {}
        self.looked_up: set[int] = set()  # the tensors that are partial since each rank has a part of a vocabulary
        self.shared: dict[int, tuple[object, Tensor]] = {}  # what invariant columns share, by their input's number
        self.used: tuple[Layout, ...] = ()  # what DTensor converted the tensors of the operator that runs to
        self._values = setup.graph.values
        self._sizes = Sizes(self.tensor)
        self._scopes: list[_Scope] = []
        self._parameters: dict[tuple[int, str], Tensor] = {}
        self._events = events

    def walk(self) -> Frame:
        """Runs all events."""
        for event in self._events:
            match event:
                case Op():
                    self._op(event)
                case Enter():
                    self._enter(event)
                case Leave():
                    self._leave(event)
                case Guard():
                    self._guard(event)
                case Call():
                    self._call(event)
                case _:
                    assert_never(event)
        return self

    # Tensors

    def full(self, module: str) -> str:
        """The full name of a module of this frame."""
        return ".".join(part for part in (self.prefix, module) if part)

    @property
    def module(self) -> str:
        """The innermost module that runs, by its full name."""
        return self.full(self._scopes[-1].module) if self._scopes else self.prefix

    def new(
        self,
        like: Tensor | Value,
        truth: Layout | None,
        claim: Layout | None,
        cause: Cause | None,
        *,
        grad: bool | None = None,
    ) -> Tensor:
        """A new tensor of the shape and kind of another."""
        is_float = like.is_float if isinstance(like, Tensor) else like.kind == "float"
        made = Tensor(
            like.shape,
            truth,
            claim,
            self.setup.ranks,
            is_float,
            (like.grad if grad is None else grad) and is_float,
            cause,
            len(self.all),
            like.source if isinstance(like, Tensor) else "",
        )
        self.all.append(made)
        return made

    def tensor(self, value: int) -> Tensor:
        """The tensor of a value of the graph, as the code that runs now sees it."""
        known = self.env.get(value)
        if known is not None:
            return known
        record = self._values[value]
        if record.origin == "parameter":
            return self._parameter(value, record)
        made = self.env[value] = self.new(record, REPLICATE, None, None)
        return made

    def shape(self, value: int) -> tuple[int, ...]:
        """The shape of a value of the graph on a single device."""
        return self._values[value].shape

    def _parameter(self, value: int, record: Value) -> Tensor:
        """A parameter as the module that runs holds it; a tied one under the name that this module has for it."""
        names = [name.removeprefix("/") if name.startswith("/") else self.full(name) for name in record.names]
        running = self.module
        name = next((name for name in names if name.rpartition(".")[0] == running), names[0])
        # A module that swaps its parameters for local ones, or not, does so call by call.
        key = (value, name)
        if key not in self._parameters:
            self._parameters[key] = placed(self, record, names, name)
        return self._parameters[key]

    def holds_dtensors(self, module: str) -> bool:
        """Whether a module that runs was given DTensors."""
        return any(scope.dtensors for scope in self._scopes if self.full(scope.module) == module)

    def record(self, conflict: Conflict) -> None:
        """Keeps a conflict, with the place where it arose."""
        conflict.module = conflict.module or self.module
        self.trail.conflicts.append(conflict)

    # Operators

    def _op(self, op: Op) -> None:
        if any(scope.opaque for scope in self._scopes):
            self._unknown(op)
            return
        op = self._spelt_out(op)
        values = list(tensors(op))
        found = [self.tensor(value) for value in values]
        if op.name.rpartition(".")[2] in _FIRST_ONLY:
            found = found[:1]
        if all(each.truth is not None for each in found):
            if all(each.claim is None and each.truth == REPLICATE for each in found) and self._sizes.hold(op):
                self._results(op, found, [(REPLICATE, None)] * len(op.outs))
                return
            try:
                self._results(op, found, self._layouts(op, found))
            except Conflict as conflict:
                conflict.operator = op.name
                conflict.sized = tuple(self.tensor(value) for value in sized(op.args))
                self.record(conflict)
                self._unknown(op)
            return
        self._unknown(op)

    def _spelt_out(self, op: Op) -> Op:
        """A reshape to the shape of another tensor, as one to its sizes."""
        name, _, like = op.name.rpartition("_")
        if like != "as" or len(op.args) != 2 or not isinstance(op.args[1], Ref):
            return op
        if name.rpartition(".")[2] not in ("view", "reshape", "expand"):
            return op
        other = op.args[1].value
        sizes = (Size(size, Dim(other, dim)) for dim, size in enumerate(self.shape(other)))
        return replace(op, name=name, args=(op.args[0], *sizes))

    def _layouts(self, op: Op, found: list[Tensor]) -> list[tuple[Layout | None, Layout | None]]:
        """Truth and claim of each result."""
        if all(each.claim is None for each in found):
            if found and found[0].gaps:
                strides.check_reshape(op.name, found[0], found[0].truth, found[0].gaps, self.shape(op.outs[0]))
            truths = self.run(op, found, [each.truth for each in found])
            if _computes_with_sizes(op.name) and not self._sizes.hold(op):
                text = "it computes with a length that was read off a tensor of which the rank has a part"
                raise Conflict(Fault.LENGTH, text, crashes=False, tensors=tuple(found))
            if op.mutates and not (all(each.whole for each in found) or _overwrites(op, found[0], truths[0])):
                raise Conflict(Fault.UNKNOWN, "it writes into a part of a tensor in place", tensors=tuple(found))
            return [(truth, None) for truth in truths]
        plain = [each for each in found if each.claim is None and _count(each.shape) != 1]
        if plain:
            placed = [each for each in found if each.claim is not None]
            raise Conflict(Fault.MIXED, "a plain tensor meets a DTensor", crashes=True, tensors=(*placed, *plain))
        return dtensors.layouts(self, op, found)

    def run(
        self, op: Op, found: Sequence[Tensor], layouts: Sequence[Layout | None], *, seen: bool = False
    ) -> tuple[Layout, ...]:
        """What an operator's rule says of these layouts; with `seen`, on the shapes that DTensors believe they have."""
        rule = rule_of(op.name)
        operands = tuple(
            Operand(each.seen_shape() if seen else each.shape, layout or REPLICATE, each.is_float)
            for each, layout in zip(found, layouts, strict=True)
        )
        outs = tuple(self._values[out].shape for out in op.outs)
        if rule is None:
            raise Conflict(Fault.UNKNOWN, f"no rule is known for `{_short(op.name)}`", tensors=tuple(found))
        try:
            distributed = any(each.claim is not None for each in found)
            answer = rule(Run(op, operands, outs, self.setup.ranks, self._sizes.number, distributed))
        except Refusal as refusal:
            order = (*refusal.blame, *(index for index in range(len(found)) if index not in refusal.blame))
            blamed = tuple(found[index] for index in order)
            raise Conflict(refusal.fault, refusal.text, refusal.crashes, blamed) from None
        averaged = any(isinstance(layout, Partial) and layout.op == "avg" for layout in answer)
        if averaged and any(each.claim is None and not isinstance(each.truth, Partial) for each in found):
            # Its gradient would be too large by the number of ranks; DTensor sees to that, plain code does not.
            text = "a mean is taken along a dimension of which each rank has only a part"
            raise Conflict(Fault.REDUCED, text, crashes=False, tensors=tuple(found))
        return answer

    def _results(self, op: Op, found: Sequence[Tensor], layouts: Sequence[tuple[Layout | None, Layout | None]]) -> None:
        cause = _cause(found)
        order = views.order_of(Run(op, (), (), self.setup.ranks, self._sizes.number), found[0].shape) if found else ()
        gaps: Gaps = frozenset[int]().union(*(each.gaps for each in found))
        outs = []
        for value, (truth, claim) in zip(op.outs, layouts, strict=True):
            outs.append(self.new(self._values[value], truth, claim, cause))
            outs[-1].source = next((each.source for each in found if each.source), "")
            outs[-1].gaps = strides.kept(op.name, gaps, len(outs[-1].shape), order)
            if isinstance(claim, Partial) and dtensors.looks_up(self, op, found):
                self.looked_up.add(outs[-1].number)
            self.env[value] = outs[-1]
        ins = tuple(each for each in found if each.grad)
        if ins and any(out.grad for out in outs):
            self.trail.steps.append(Computed(ins, tuple(outs), op.name, self.module, tuple(found), self.used, order))
        self.used = ()

    def _unknown(self, op: Op) -> None:
        """Nothing is known of the results, nor of the gradients that come back from them."""
        found = tuple(self.tensor(value) for value in tensors(op))
        outs = []
        for value in op.outs:
            self.env[value] = self.new(self._values[value], None, None, None)
            outs.append(self.env[value])
        for value in op.mutates:
            if value in self.env:
                self.env[value] = self.new(self._values[value], None, None, None)
        ins = tuple(each for each in found if each.grad)
        if ins and any(out.grad for out in outs):
            self.trail.steps.append(Computed(ins, tuple(outs), op.name, self.module, found))

    def _guard(self, guard: Guard) -> None:
        if any(scope.opaque for scope in self._scopes):
            return
        if isinstance(guard.left, Ref):
            asked = self.tensor(guard.left.value)
            if asked.truth not in (None, REPLICATE):
                text = "the code decides by the value of a tensor of which each rank has a part"
                self.record(Conflict(Fault.LENGTH, text, tensors=(asked,), operator=guard.op))
            return
        told = self._sizes.told(guard)
        if told is not None:
            blamed = tuple(self.tensor(value) for side in (guard.left, guard.right) for value in sized(side))
            self.record(Conflict(Fault.LENGTH, told, tensors=blamed, operator=guard.op))

    # Boundaries

    def _enter(self, event: Enter) -> None:
        scope = _Scope(event.module, {})
        if self._scopes:
            self._scopes[-1].leaf = False
        self._scopes.append(scope)
        name = self.module
        ins = tuple(self._at(each) for each in event.args)
        keywords = tuple((key, self._at(each)) for key, each in event.kwargs)
        self.trail.boundaries[name] = Boundary(ins, keywords)
        applied = self.setup.applied.get(name)
        if applied is None:
            return
        cause = Cause(name, applied)
        if isinstance(applied.style, Custom):
            scope.opaque = True
            self.record(Conflict(Fault.UNKNOWN, f"what `custom {applied.style.path}` does is not known", cause=cause))
            return
        try:
            changed = boundaries.enter(self, applied, cause, event)
        except Conflict as conflict:
            conflict.cause = conflict.cause or cause
            self.record(conflict)
            changed = {value: self.new(self._values[value], None, None, cause) for value in refs(event.args)}
        for value, tensor in changed.items():
            scope.outside[value] = self.env.get(value)
            self.env[value] = tensor
        within = (self._at(each) for each in (*event.args, *(each for _, each in event.kwargs)))
        scope.dtensors = any(each is not None and each.claim is not None for each in within)

    def _at(self, argument: Argument) -> Tensor | None:
        return self.tensor(argument.value) if isinstance(argument, Ref) else None

    def _leave(self, event: Leave) -> None:
        name = self.module
        scope = self._scopes.pop()
        applied = self.setup.applied.get(name)
        outs = {out.value: self.tensor(out.value) for out in event.outs if isinstance(out, Ref)}
        if scope.leaf:
            for tensor in outs.values():
                tensor.source = name
        for value, before in scope.outside.items():
            if before is None:
                self.env.pop(value, None)
            else:
                self.env[value] = before
        if applied is not None:
            self._scopes.append(scope)
            cause = Cause(name, applied)
            try:
                outs |= boundaries.leave(self, applied, cause, event, outs)
            except Conflict as conflict:
                conflict.cause = conflict.cause or cause
                self.record(conflict)
                outs = {value: self.new(self._values[value], None, None, cause) for value in outs}
            self._scopes.pop()
        self.env.update(outs)
        boundary = self.trail.boundaries.setdefault(name, Boundary())
        boundary.outs = tuple(outs[out.value] if isinstance(out, Ref) else None for out in event.outs)

    # Layers

    def _call(self, call: Call) -> None:
        body = self.setup.graph.bodies[call.body]
        free = self.setup.graph.read_by(call.body)
        given = dict(call.inputs)
        pairs = [*call.inputs, *((value, value) for value in free if value not in given)]
        outer = {inner: self.tensor(value) for inner, value in pairs}
        key = (call.body, self.setup.layers[call.module], tuple((inner, t.key) for inner, t in outer.items()))
        frame = self.setup.memo.get(key)
        if frame is None:
            frame = Frame(self.setup, body, call.module)
            for inner, tensor in outer.items():
                frame.env[inner] = replace(tensor, number=len(frame.all))
                frame.all.append(frame.env[inner])
            entering = dict(frame.env)
            frame.inputs = entering
            frame.walk()
            self.setup.memo[key] = frame
        frame.layers.append(call.module)
        made = []
        for inner, value in call.outputs:
            inside = frame.tensor(inner)
            self.env[value] = self.new(inside, inside.truth, inside.claim, inside.cause)
            self.env[value].gaps = inside.gaps
            made.append((inside, self.env[value]))
        ins = tuple((frame.inputs[inner], tensor) for inner, tensor in outer.items())
        self.trail.steps.append(Called(frame, ins, tuple(made), call.module))


def _cause(found: Sequence[Tensor]) -> Cause | None:
    """Who made a result lie as it does: the operand that is not whole, else any that a rule touched."""
    best = None
    for each in found:
        if each.cause is None:
            continue
        if each.truth != REPLICATE:
            return each.cause
        if best is None or (each.claim is not None and best.claim is None):
            best = each
    return best.cause if best else None


def _computes_with_sizes(name: str) -> bool:
    """Whether an operator computes with the sizes among its arguments; other rules look at theirs themselves."""
    own = name.rpartition(".")[2].strip("_")
    return any(own in module.RULES for module in (pointwise, reductions, contractions, attention))


def _overwrites(op: Op, written: Tensor, truth: Layout) -> bool:
    """Whether an in-place operator leaves its first tensor lying as it did, and no other name for that memory."""
    return truth == written.truth and op.mutates == tuple(refs(op.args[:1]))


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _short(name: str) -> str:
    return name.removeprefix("torch.nn.functional.").removeprefix("torch.Tensor.")
