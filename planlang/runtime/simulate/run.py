"""Every rank of a plan in one process, forward and backward, against the unsharded model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from planlang.plan.styles import Style
from planlang.runtime.simulate import local
from planlang.runtime.simulate.judge import judged
from planlang.runtime.simulate.outcome import Crash, Outcome, Stage, WrongGradient
from planlang.runtime.simulate.truth import (
    Inputs,
    Truth,
    error,
    flaw,
    logits_of,
    optimizer,
    split,
    stepped,
    truth,
)
from planlang.runtime.simulate.where import Where, origin
from planlang.runtime.styles import build
from planlang.runtime.ties import record, restore

Contract: TypeAlias = Literal["torch", "nemo-rl"]
TOLERANCE = 1e-9


def simulate(
    make_model: Callable[[], nn.Module],
    styles: Mapping[str, Style | ParallelStyle],
    tp: int,
    inputs: Inputs,
    *,
    retie: bool = True,
    contract: Contract = "torch",
    tolerance: float = TOLERANCE,
    right: Truth | None = None,
    micro_batches: int = 1,
    step: bool = False,
    watch: Callable[[nn.Module], None] | None = None,
) -> Outcome:
    """Applies styles to a model, runs it on `tp` ranks in this process and compares it with the unsharded model.

    Every rank computes the whole loss of its own logits and calls backward on it, as in training: ranks that hold the
    same whole logits each send back the whole gradient, and a DTensor is gathered first, whose backward gives each rank
    its part.

    Some plans end the process, inside attention on memory that is not there: run many in a process of their own.

    Args:
        make_model: makes the model, in float64 and on the CPU, the same at every call.
        styles: for each module, by its full name, its style; one of the language, or an object of torch's.
        tp: the number of ranks.
        inputs: keyword arguments of the model's forward, the same on every rank.
        retie: whether parameters that were one object are one again after applying, as `planlang.parallelize` has it;
            torch's own `parallelize_module` leaves them apart.
        contract: what may come out. `torch`: the whole logits on every rank, or a DTensor. `nemo-rl`: the whole logits
            on every rank, or a DTensor that is evenly `Shard(-1)`.
        tolerance: errors up to this are rounding.
        right: what `truth` found for them, to compute it once for many plans.
        micro_batches: in how many parts, one after the other, the batch is run; gradients add up.
        step: whether one step of an optimizer is compared too, where the gradients are right.
        watch: is given the model once its styles are applied, to hang hooks on.

    Raises:
        KeyError: the model has no module of a name in `styles`.
        RuntimeError: a process group of real processes exists.
        PlanError: a custom style cannot be made.
    """
    right = right or truth(make_model, inputs, micro_batches)
    model = make_model()
    unknown = [name for name in styles if name not in dict(model.named_modules(remove_duplicate=False))]
    if unknown:
        raise KeyError(unknown[0])
    weights = stepped(right) if step else {}
    with local.ranks(tp) as mesh:
        local.spread(model, tp)
        parts = [
            {key: local.copies(each, tp) if isinstance(each, Tensor) else each for key, each in part.items()}
            for part in split(inputs, micro_batches)
        ]
        run = Run(model, mesh, right, contract, tolerance, watch)
        outcome = run.outcome(styles, parts, retie)
        return replace(outcome, stepped=run.stepped(weights)) if step and outcome.verdict == "right" else outcome


class Run:
    """One model on its way through applying, forward and backward.

    It does not know whether its ranks are simulated: it serves a rank of real processes as well, and then speaks for
    that rank alone.
    """

    def __init__(
        self,
        model: nn.Module,
        mesh: DeviceMesh,
        right: Truth,
        contract: Contract = "torch",
        tolerance: float = TOLERANCE,
        watch: Callable[[nn.Module], None] | None = None,
    ) -> None:
        self.watch = watch
        self.model, self.mesh, self.tp = model, mesh, mesh.size()
        self.right, self.contract, self.tolerance = right, contract, tolerance
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.where = Where(model)
        self.stage: Stage = "applying"
        self.sites: dict[str, list[tuple[nn.Module, str]]] = {}
        self.module = ""

    def outcome(self, styles: Mapping[str, Style | ParallelStyle], parts: Sequence[Inputs], retie: bool) -> Outcome:
        """The verdict: the first of the three stages that fails decides. May be called once.

        Args:
            styles: as for `simulate`.
            parts: the inputs of each micro-batch.
            retie: as for `simulate`.
        """
        try:
            self.sites = self._apply(styles, retie)
        except Exception as raised:  # anything a plan can make torch raise
            return Outcome(verdict="crash", crash=self._crash(raised))
        wrong, note = 0.0, ""
        count = len(parts)
        for part, right, weights in zip(
            parts, self.right.logits.chunk(count), self.right.weights.chunk(count), strict=True
        ):
            self.stage = "forward"
            try:
                logits, said = self._whole(logits_of(self.model(**part)))
            except Exception as raised:
                return Outcome(verdict="crash", crash=self._crash(raised))
            copies = local.of_each_rank(logits.detach(), self.tp)
            found = max(error(each, right) for each in copies)
            if found == float("inf") and not said:
                said = f"the logits have {flaw(copies, right)}"
            wrong, note = max(wrong, found), note or said
            failed = bool(note) or wrong > self.tolerance
            if wrong == float("inf"):
                return Outcome(verdict="forward", forward_error=wrong, note=note)
            self.stage, self.where.back = "backward", ""
            try:
                (logits * weights.to(logits.device)).sum().backward()  # type: ignore[no-untyped-call]
            except Exception as raised:
                verdict: Literal["forward", "crash"] = "forward" if failed else "crash"
                return Outcome(verdict=verdict, crash=self._crash(raised), forward_error=wrong, note=note)
        try:
            gradients = [self._gradient(name, self.sites[name]) for name in self.right.gradients]
        except Exception as raised:
            verdict = "forward" if failed else "crash"
            return Outcome(verdict=verdict, crash=self._crash(raised), forward_error=wrong, note=note)
        bad = sorted((g for g in gradients if g.error > self.tolerance), key=lambda g: -g.error)
        return Outcome(
            verdict="forward" if failed else "gradient" if bad else "right",
            forward_error=wrong,
            note=note,
            gradients=tuple(bad),
            worst=max((g.error for g in gradients), default=0.0),
        )

    def stepped(self, weights: Mapping[str, Tensor]) -> float:
        """The largest relative difference of any weight, on any rank, after one step of the optimizer.

        Args:
            weights: what `stepped` makes of the unsharded model.
        """
        optimizer(self.model, self.right.scale).step()
        worst = 0.0
        for name, weight in weights.items():
            for module, key in self.sites[name]:
                held = module._parameters[key]
                assert held is not None
                copies = local.of_each_rank(whole(held.detach()), self.tp)
                worst = max(worst, *(error(each, weight) for each in copies))
        return worst

    def _apply(
        self, styles: Mapping[str, Style | ParallelStyle], retie: bool
    ) -> dict[str, list[tuple[nn.Module, str]]]:
        """Applies the styles, inner modules first, as `planlang.parallelize` does.

        Returns:
            The modules that hold each parameter, and its name there; by the first full name of the parameter.
        """
        sites: dict[str, list[tuple[nn.Module, str]]] = {}
        for module in self.model.modules():
            for key, parameter in module._parameters.items():
                if parameter is not None:
                    sites.setdefault(self.names[id(parameter)], []).append((module, key))
        held = record(self.model)
        modules = dict(self.model.named_modules(remove_duplicate=False))
        seen: set[nn.Module] = set()
        for name in sorted(styles, key=lambda name: name.count(".") + 1 if name else 0, reverse=True):
            style = styles[name]
            made = style if isinstance(style, ParallelStyle) else build(style)
            if made is None or (modules[name] in seen and retie):
                continue
            seen.add(modules[name])
            self.module = name
            parallelize_module(modules[name], self.mesh, made)
        if retie:
            restore(held)
        if self.watch is not None:
            self.watch(self.model)
        self.where.close()
        return sites

    def _crash(self, raised: Exception) -> Crash:
        places = {"applying": self.module, "forward": self.where.innermost, "backward": self.where.back}
        lines = str(raised).strip().splitlines()
        return Crash(
            stage=self.stage,
            exception=type(raised).__name__,
            message=lines[0][:300] if lines else "",
            module=places[self.stage],
            origin=origin(raised),
        )

    def _whole(self, output: Tensor) -> tuple[Tensor, str]:
        """The logits as each rank has them, gathered from a DTensor, and what the contract says against them."""
        if not isinstance(output, DTensor):
            return output, ""
        note = ""
        even = output.shape[-1] % self.tp == 0
        last = output.placements[0] in (Shard(-1), Shard(output.ndim - 1))
        if self.contract == "nemo-rl" and not (last and even):
            note = f"the logits are {output.placements[0]} of {output.shape[-1]} columns, not evenly `Shard(-1)`"
        return output.full_tensor(), note

    def _gradient(self, name: str, sites: list[tuple[nn.Module, str]]) -> WrongGradient:
        """How far a parameter's gradient is off, on the rank and at the holder where it is farthest off.

        A tie that was lost has several holders, each with a part of the gradient.
        """
        right = self.right.gradients[name]
        holders = {id(p): p for module, key in sites if (p := module._parameters[key]) is not None}
        gradients = [None if each.grad is None else whole(each.grad.detach()) for each in holders.values()]
        copies = [None if each is None else local.of_each_rank(each, self.tp) for each in gradients]
        found = [judged(name, each, right, self.right.scale, self.tolerance) for each in copies]
        return max(found, key=lambda g: g.error)


def whole(tensor: Tensor) -> Tensor:
    """Gathered, if it is a DTensor; each rank's own, if not."""
    if isinstance(tensor, DTensor):
        gathered: Tensor = tensor.redistribute(placements=[Replicate()]).to_local()
        return gathered
    return tensor
