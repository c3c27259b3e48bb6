"""One pass of a model, forward and backward, with all that comes out: unsharded, or under a plan on simulated ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.distributed.tensor.parallel import ParallelStyle

from planlang.plan.styles import Style
from planlang.runtime.simulate import Crash, Truth, local, truth
from planlang.runtime.simulate.run import Run, whole
from planlang.runtime.simulate.truth import Inputs, logits_of
from planlang.runtime.verify.diverge import Outputs

Styles = Mapping[str, Style | ParallelStyle]


@dataclass(frozen=True, slots=True)
class Values:
    """What a pass computed, as each rank has it; one rank where the model is unsharded.

    Attributes:
        logits: a tensor for each rank.
        gradients: of every parameter by its first name, the copies of all ranks; none where there is no gradient.
        modules: the first tensor that each module returned on each rank, in the order in which the modules ended.
    """

    logits: list[Tensor]
    gradients: Mapping[str, list[Tensor]]
    modules: Mapping[str, list[Tensor]]


def unsharded(make_model: Callable[[], nn.Module], inputs: Inputs) -> tuple[Truth, Values]:
    """Runs a model as it is.

    Args:
        make_model: makes the model, the same at every call.
        inputs: what it is called with.
    """
    outputs = Outputs()

    def watched() -> nn.Module:
        model = make_model()
        outputs.hang(model)
        return model

    found = truth(watched, inputs)
    gradients = {name: [] if each is None else [each] for name, each in found.gradients.items()}
    return found, Values([found.logits], gradients, outputs.found)


def parallel(
    make_model: Callable[[], nn.Module], styles: Styles, ranks: int, inputs: Inputs, right: Truth
) -> Values | Crash:
    """Runs a model under a plan, every rank in this process; gradients that stay partial are summed.

    Args:
        make_model: as for `unsharded`.
        styles: the style of every module that has one.
        ranks: their number; 1 is possible.
        inputs: what it is called with.
        right: what `unsharded` found, for the weights of its loss.
    """
    model, outputs = make_model(), Outputs(ranks)
    with local.ranks(ranks) as mesh:
        local.spread(model, ranks)
        called = {
            name: local.copies(each, ranks) if isinstance(each, Tensor) else each for name, each in inputs.items()
        }
        return _Pass(model, mesh, right, watch=outputs.hang).values(styles, called, outputs)


class _Pass(Run):
    """A run of which the values are wanted and not the verdict."""

    def values(self, styles: Styles, inputs: Inputs, outputs: Outputs) -> Values | Crash:
        """All that is computed, or what is raised."""
        try:
            self.sites = self._apply(styles, True)
            self.stage = "forward"
            logits, _ = self._whole(logits_of(self.model(**inputs)))
            self.stage = "backward"
            (logits * self.right.weights).sum().backward()  # type: ignore[no-untyped-call]
            gradients = {name: self._copies(name) for name in self.right.gradients}
        except Exception as raised:  # anything a plan can make torch raise
            return self._crash(raised)
        return Values(local.of_each_rank(logits.detach(), self.tp), gradients, outputs.found)

    def _copies(self, name: str) -> list[Tensor]:
        """A gradient as each rank, and each holder where a tie was lost, has it."""
        holders = {id(held): held for module, key in self.sites[name] if (held := module._parameters[key]) is not None}
        found: list[Tensor] = []
        for held in holders.values():
            if held.grad is not None:
                found += local.of_each_rank(whole(held.grad.detach()), self.tp)
        return found
