"""The backward walk: from the gradient of the output to that of every parameter.

One rule serves every operator, since a rank differentiates what it computed. With `z` the layout of a result and `x`
that of an input: where both are cut the gradient is cut too; where the result is cut and the input whole, each rank
has its own part's term of the input's gradient (partial); where the result is partial and its gradient whole, each
rank's term is differentiated with the whole gradient.
"""

from __future__ import annotations

from collections.abc import Mapping

from planlang.analysis.flow import adjoint, choice, strides
from planlang.analysis.flow.cause import Cause
from planlang.analysis.flow.conflict import Conflict
from planlang.analysis.flow.forward import Frame
from planlang.analysis.flow.gradients import Backward, Split, Wrong, pull
from planlang.analysis.flow.state import REPLICATE, Gradient, Tensor, for_gradient
from planlang.analysis.flow.tape import (
    Called,
    Computed,
    Converted,
    Move,
    Parameter,
    Shared,
    Unwrapped,
    Wrapped,
    collective,
    tree_moves,
)
from planlang.layout import Layout, Partial, Replicate


def walk(frame: Frame, starts: Mapping[int, Gradient], splits: Mapping[int, Split] | None = None) -> Backward:
    """Walks back through a frame.

    Args:
        frame: what was walked forward.
        starts: the gradients that arrive at its outputs, by the numbers of their tensors.
        splits: where those became partial.
    """
    return _Walk(frame, starts, splits or {}).run()


class _Walk:
    def __init__(self, frame: Frame, starts: Mapping[int, Gradient], splits: Mapping[int, Split]) -> None:
        self._frame = frame
        self._came: dict[int, list[Gradient]] = {number: [gradient] for number, gradient in starts.items()}
        self._found = Backward()
        self._found.splits.update(splits)

    def run(self) -> Backward:
        for step in reversed(self._frame.trail.steps):
            match step:
                case Computed():
                    self._computed(step)
                case Wrapped():
                    self._wrapped(step)
                case Unwrapped():
                    self._unwrapped(step)
                case Converted():
                    self._converted(step)
                case Shared():
                    self._shared(step)
                case Called():
                    self._called(step)
        for parameter in self._frame.trail.parameters:
            self._parameter(parameter)
        for tensor in self._frame.inputs.values():
            gradient = self._total(tensor)
            if gradient:
                self._found.ends[tensor.number] = gradient
        return self._found

    def _give(self, tensor: Tensor, gradient: Gradient, split: Split | None) -> None:
        if not tensor.grad:
            return
        self._came.setdefault(tensor.number, []).append(gradient)
        if split is not None:
            self._found.splits.setdefault(tensor.number, split)

    def _split_of(self, tensor: Tensor) -> Split | None:
        return self._found.splits.get(tensor.number)

    def _total(self, tensor: Tensor) -> Gradient | None:
        """All contributions to a tensor's gradient, added up."""
        if tensor.number in self._found.ends:
            return self._found.ends[tensor.number]
        came = self._came.get(tensor.number)
        if not came:
            return None
        total = self._sum(tensor, came)
        self._found.ends[tensor.number] = total
        return total

    def _sum(self, tensor: Tensor, came: list[Gradient]) -> Gradient:
        if any(each.truth is None for each in came):
            return Gradient(None, came[0].claim)
        if len(came) > 1:  # a sum is written anew, without gaps
            came = [Gradient(each.truth, each.claim) for each in came]
        kinds = set(came)
        if len(kinds) == 1:
            return came[0]
        claims = {each.claim for each in came}
        if all(each.honest for each in came) and None not in claims:
            return self._added(tensor, [each.claim or REPLICATE for each in came])
        truths = {each.truth for each in came}
        if len(truths) == 1 and len(claims) == 1:
            return came[0]
        split = self._split_of(tensor)
        self._found.wrong.append(
            Wrong("differs", None, tensor, came[0], split, split.module if split else self._frame.prefix)
        )
        return Gradient(None, came[0].claim)

    def _added(self, tensor: Tensor, layouts: list[Layout]) -> Gradient:
        """Gradients of one DTensor, added one to the other as they arrive."""
        total, shapes, module = layouts[0], (tensor.shape, tensor.shape), self._module(tensor)
        for layout in layouts[1:]:
            row = choice.pointwise("add", (total, layout), shapes, tensor.ranks)
            for have, want in zip((total, layout), row.ins, strict=True):
                self._move(have, want, tensor, module, tensor.cause)
            total = row.out
        return Gradient(total, total)

    # Steps

    def _computed(self, step: Computed) -> None:
        for out in step.outs:
            gradient = self._total(out) if out.grad else None
            if gradient is None or not self._reshaped(step, out, gradient) or self._chosen(step, out, gradient):
                continue
            for x in step.ins:
                if not x.grad:
                    continue
                truth = pull(out.truth, x.truth, gradient.truth)
                split = self._split_of(out)
                if isinstance(truth, Partial) and not isinstance(gradient.truth, Partial):
                    split = Split(x, step.operator, step.module, out.cause)
                if out.claim is None:
                    self._give(x, Gradient(truth, x.claim and for_gradient(x.claim)), split)
                    continue
                honest = out.honest and x.honest and gradient.honest
                claim = pull(out.claim, x.claim, gradient.claim)
                gaps = strides.kept(step.operator, gradient.gaps, len(x.shape), step.back)
                if honest:
                    layout = claim or REPLICATE
                    self._give(x, Gradient(layout, layout, gaps), split)
                elif claim is None or truth is None:
                    self._wrong("claim", None, x, gradient, split, step.module)
                    self._give(x, Gradient(None, x.claim), split)
                else:
                    self._give(x, Gradient(truth, claim, gaps), split)

    def _reshaped(self, step: Computed, out: Tensor, gradient: Gradient) -> bool:
        """Whether torch reshapes a DTensor's gradient as the backward pass needs it; where not, that is recorded."""
        if out.claim is None or gradient.claim is None:
            return True
        try:
            if step.operator.endswith("linear"):
                strides.check_linear(out, gradient.claim, gradient.gaps)
            else:
                strides.check_reshape(step.operator, out, gradient.claim, gradient.gaps, step.operands[0].shape)
        except Conflict as conflict:
            conflict.module, conflict.operator = step.module, step.operator
            conflict.text, conflict.backward = f"in the backward pass {conflict.text}", True
            self._frame.record(conflict)
            for x in step.ins:
                self._give(x, Gradient(None, x.claim), None)
            return False
        return True

    def _chosen(self, step: Computed, out: Tensor, gradient: Gradient) -> bool:
        """Walks back through an operator on DTensors for which DTensor must convert; else does nothing."""
        if out.claim is None or gradient.claim is None or not (out.honest and gradient.honest):
            return False
        if adjoint.usual(step, out, gradient.claim) or not all(each.honest for each in step.operands):
            return False
        for part in adjoint.parts(step, out, gradient.claim, out.ranks):
            for each in part.conversions:
                self._move(each.source, each.target, each.tensor, step.module, out.cause, certain=each.certain)
            gaps = strides.kept(step.operator, gradient.gaps, len(part.tensor.shape), step.back)
            self._give(part.tensor, Gradient(part.layout, part.layout, gaps), None)
        return True

    def _wrapped(self, step: Wrapped) -> None:
        gradient = self._total(step.out)
        if gradient is None or step.out.claim is None:
            return
        target = for_gradient(step.out.claim)
        split = self._split_of(step.out)
        if gradient.claim == target or gradient.truth is None:
            self._give(step.source, Gradient(gradient.truth, None, gradient.gaps), split)
        elif gradient.honest:
            self._move(gradient.claim, target, step.out, self._module(step.out), step.out.cause)
            gaps = strides.left_by(gradient.claim, target, step.out.shape, step.out.ranks)
            self._give(step.source, Gradient(target, None, gaps), None)
        else:
            self._wrong("claim", None, step.out, gradient, split, self._module(step.out))
            self._give(step.source, Gradient(None, None), split)

    def _unwrapped(self, step: Unwrapped) -> None:
        gradient = self._total(step.out)
        if gradient is None or step.source.claim is None:
            return
        claim = step.grad or for_gradient(step.source.claim)
        split = self._split_of(step.out)
        if step.grad is None:
            truth = gradient.truth
            if truth is None and step.source.honest:  # a declared boundary ends what is not known
                truth, split, self._found.trusted = claim, None, True
            self._give(step.source, Gradient(truth, claim, gradient.gaps), split)
            return
        # `ReplicateParallel`: the parameter's own layout is restored call by call, inside autograd.
        if gradient.truth == claim:
            module, cause = self._module(step.source), step.source.cause
            if step.tree is None:
                self._move(claim, REPLICATE, step.out, module, cause)
            else:
                self._found.moves += tree_moves(step.out.shape, step.tree, module, cause, REPLICATE)
            self._give(step.source, Gradient(REPLICATE, REPLICATE), None)
        elif gradient.truth is None:
            self._give(step.source, Gradient(None, REPLICATE), split)
        else:  # summed though it is whole, or not summed though it is a term
            kept = Partial() if isinstance(gradient.truth, Partial) else REPLICATE
            summed = isinstance(claim, Partial)
            self._give(step.source, Gradient(kept, Partial() if summed else REPLICATE), split)

    def _converted(self, step: Converted) -> None:
        gradient = self._total(step.out)
        if gradient is None or step.source.claim is None or gradient.claim is None:
            return
        partial = isinstance(step.source.claim, Partial)
        kept = partial and isinstance(gradient.claim, Partial)
        target = gradient.claim if kept else for_gradient(step.source.claim)
        split = self._split_of(step.out)
        if gradient.claim == target or gradient.truth is None:
            self._give(step.source, gradient, split)
        elif gradient.honest:
            self._move(gradient.claim, target, step.out, step.module, step.cause)
            gaps = strides.left_by(gradient.claim, target, step.out.shape, step.out.ranks)
            self._give(step.source, Gradient(target, target, gaps), None)
        else:
            self._wrong("claim", None, step.out, gradient, split, step.module)
            self._give(step.source, Gradient(None, target), split)

    def _shared(self, step: Shared) -> None:
        """Each layer left a term of the gradient behind; their sum goes to where the input came from, as it lay."""
        gradient = self._total(step.out)
        if gradient is None:
            return
        lies = step.source.claim or REPLICATE
        if not step.source.grad or gradient.truth is None:
            self._give(step.source, Gradient(None, lies), self._split_of(step.out))
        elif gradient.honest and isinstance(gradient.truth, Partial):
            self._found.moves += tree_moves(step.out.shape, step.tree, step.module, step.cause, lies)
            self._give(step.source, Gradient(lies, lies), None)
        else:
            self._wrong("claim", None, step.out, gradient, self._split_of(step.out), step.module)
            self._give(step.source, Gradient(None, lies), None)

    def _called(self, step: Called) -> None:
        starts: dict[int, Gradient] = {}
        splits: dict[int, Split] = {}
        for inside, outside in step.outs:
            gradient = self._total(outside)
            if gradient is not None:
                starts[inside.number] = gradient
                split = self._split_of(outside)
                if split:
                    splits[inside.number] = split
        key = tuple(starts.items())
        known = step.frame.backward_memo.get(key)
        if not isinstance(known, Backward):
            known = step.frame.backward_memo[key] = walk(step.frame, starts, splits)
        self._found.called.append((step, known))
        for inside, outside in step.ins:
            gradient = known.ends.get(inside.number)
            if gradient is not None:
                self._give(outside, gradient, known.splits.get(inside.number))

    def _parameter(self, parameter: Parameter) -> None:
        tensor = parameter.tensor
        gradient = self._total(tensor)
        if gradient is None:
            return
        if gradient.truth is None:
            self._found.unknown.append(parameter)
        elif tensor.claim is None:
            if gradient.truth != REPLICATE:
                self._wrong("incomplete", parameter, tensor, gradient, self._split_of(tensor), self._frame.prefix)
        elif not gradient.honest:
            summed = isinstance(gradient.claim, Partial) and isinstance(gradient.truth, Replicate)
            kind = "doubled" if summed else "incomplete"
            self._wrong(kind, parameter, tensor, gradient, self._split_of(tensor), self._frame.prefix)

    def _module(self, tensor: Tensor) -> str:
        return tensor.cause.module if tensor.cause else self._frame.prefix

    def _wrong(
        self,
        kind: str,
        parameter: Parameter | None,
        tensor: Tensor,
        got: Gradient,
        split: Split | None,
        module: str,
    ) -> None:
        self._found.wrong.append(Wrong(kind, parameter, tensor, got, split, module, tensor.cause))

    def _move(
        self,
        source: Layout | None,
        target: Layout,
        tensor: Tensor,
        module: str,
        cause: Cause | None,
        *,
        certain: bool = True,
    ) -> None:
        kind = collective(source or REPLICATE, target)
        if kind:
            self._found.moves.append(
                Move(kind, tensor.shape, True, source or REPLICATE, module, cause, target=target, certain=certain)
            )
