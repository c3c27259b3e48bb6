"""The options of `planlang show` that ask what a plan costs, and the answers; a plain `show` imports none of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from planlang.analysis.cost.bytes import WIDTHS
from planlang.compiler import Compiled
from planlang.diagnostics.finding import Finding, PlanError
from planlang.plan.styles import axis_of

if TYPE_CHECKING:
    from planlang.analysis.cost.ledger import Ledger
    from planlang.analysis.cost.memory import Memory
    from planlang.analysis.cost.reductions import Reductions
    from planlang.model.graph import Graph

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What of the costs is asked for, and at which sizes."""

    comm: bool
    reductions: bool
    memory: bool
    batch: int
    length: int
    dtype: str

    def __bool__(self) -> bool:
        return self.comm or self.reductions or self.memory

    @property
    def width(self) -> int:
        """Bytes of a number."""
        return WIDTHS[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The answers; `None` for what was not asked.

    Attributes:
        asked: the question.
        ledgers: the collectives of each mesh axis.
        reductions: the sums that cross ranks.
        memory: what a rank holds.
    """

    asked: Asked
    ledgers: tuple[Ledger, ...] | None = None
    reductions: Reductions | None = None
    memory: Memory | None = None


def costing(command: Command) -> Command:
    """Adds the options."""
    size = click.IntRange(min=1)
    for decorate in reversed(
        (
            click.option("--comm", is_flag=True, help="Show the collectives, forward and backward, by module."),
            click.option("--reductions", is_flag=True, help="Show the floating-point sums that cross ranks."),
            click.option("--memory", is_flag=True, help="Show what a rank holds of parameters, gradients, AdamW."),
            click.option("--batch", type=size, default=1, show_default=True, help="Sequences."),
            click.option("--length", type=size, default=4096, show_default=True, help="Tokens in each sequence."),
            click.option("--dtype", type=click.Choice(list(WIDTHS)), default="bfloat16", show_default=True),
        )
    ):
        command = decorate(command)
    return command


def refuse_needless() -> None:
    """Refuses sizes that nothing is worked out for.

    Raises:
        click.UsageError: one is given.
    """
    context = click.get_current_context()
    for name in ("batch", "length", "dtype"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is about costs: give --comm, --reductions or --memory too")


def work_out(compiled: Compiled, asked: Asked, model: str | None, cls: str | None, sizes: dict[str, int]) -> Costs:
    """The answers.

    Args:
        compiled: a plan without errors.
        asked: the question.
        model: what `--model` names.
        cls: what `--as` names.
        sizes: how many ranks each mesh axis has, where that is known.

    Raises:
        PlanError: the model's forward pass cannot be had.
        click.ClickException: the model or the size of an axis is not given, or the pass is not known at these sizes.
    """
    from planlang.analysis.cost.ledger import ledger
    from planlang.analysis.cost.memory import memory
    from planlang.analysis.cost.reductions import reductions
    from planlang.analysis.flow.applied import setup
    from planlang.analysis.flow.passes import run

    if model is None:
        raise click.UsageError("--comm, --reductions and --memory are about a model: give --model")
    assignment = compiled.assignments[0]
    pieces = [piece for site in assignment.sites.all for piece in assignment.rule_of(site)]
    axes = tuple(dict.fromkeys(axis for piece in pieces if (axis := axis_of(piece.rule.style))))
    unknown = next((axis for axis in axes if axis not in sizes), None)
    if unknown:
        hint = "give --tp" if unknown == "tp" else f"write its size into the plan, `mesh ({unknown}=2)`"
        raise click.UsageError(f"it is not known how many ranks the mesh axis `{unknown}` has: {hint}")
    held = memory(assignment, sizes, asked.width) if asked.memory else None
    if not (asked.comm or asked.reductions):
        return Costs(asked=asked, memory=held)
    graph = _graph(model, cls, asked)
    ledgers = tuple(ledger(run(setup(assignment, graph, axis, sizes[axis])), axis, asked.width) for axis in axes)
    return Costs(
        asked=asked,
        ledgers=ledgers if asked.comm else None,
        reductions=reductions(ledgers) if asked.reductions else None,
        memory=held,
    )


def _graph(model: str, cls: str | None, asked: Asked) -> Graph:
    """The pass of training, or of one token."""
    from planlang.model.template import SizeError
    from planlang.model.trees import named_graphs

    found = named_graphs(model, cls)
    if isinstance(found, Finding):
        raise PlanError([found])
    kind = "step" if asked.length == 1 else "plain"
    if kind not in found.passes:
        reason = found.failures.get(kind) or found.failure
        raise click.ClickException(f"the forward pass of `{model}` is not known: {reason}")
    try:
        return found.passes[kind].at(asked.batch, asked.length)
    except SizeError as error:
        raise click.ClickException(f"{error}: give another --batch or --length") from error
