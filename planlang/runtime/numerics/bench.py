"""A model under a plan on several numbers of ranks, with torch's kernels and with fixed shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from planlang.analysis.cost.reductions import Grade
from planlang.analysis.flow.cause import Applied
from planlang.diagnostics.finding import Finding, PlanError
from planlang.model.calls import silence
from planlang.model.pretrained import text_config
from planlang.model.tree import Tree
from planlang.plan import ir
from planlang.plan.styles import Style, blocks_of
from planlang.runtime.numerics import words
from planlang.runtime.numerics.distance import SAME, UNKNOWN, Distance, distinct, farthest
from planlang.runtime.numerics.fixed import FixedShapes
from planlang.runtime.numerics.machine import machine
from planlang.runtime.numerics.measure import Values, parallel, unsharded
from planlang.runtime.numerics.report import Kernels, Measured, Numerics, Reference, Side
from planlang.runtime.numerics.tokens import Tokens, tokens
from planlang.runtime.simulate import Crash, Truth
from planlang.runtime.verify.diverge import joined
from planlang.runtime.verify.memory import numbers, refused
from planlang.runtime.verify.narrow import WIDE
from planlang.runtime.verify.twin import Twin, twin_of

_COPIES = 3  # of all weights that are there at once beside those of the ranks: gradients twice, and what is being made
_LOGITS = 8  # of all logits, in float64, while distributions are compared


@dataclass(frozen=True, slots=True)
class _Setting:
    """A plan on a number of ranks: the styles of the twin's modules."""

    plan: ir.Plan
    twin: Twin
    styles: Mapping[str, Style]
    ranks: int


class Bench:
    """Measures a plan.

    Args:
        cls: the model class.
        config: its configuration.
        tree: the model's modules.
        sizes: all numbers of ranks that are to be measured.
        dtype: of weights and activations.
        full: keep the real widths.
        reference: what the plan is held against.
        batch: sequences.
        length: tokens in each.

    Attributes:
        grades: the plan's grade on each number of ranks, to be filled in.
    """

    def __init__(
        self,
        cls: Any,
        config: Any,
        tree: Tree,
        sizes: tuple[int, ...],
        *,
        dtype: str,
        full: bool,
        reference: Reference,
        batch: int,
        length: int,
    ) -> None:
        self.cls, self.config, self.tree, self.all_sizes = cls, config, tree, sizes
        self.dtype, self.full, self.reference = dtype, full, reference
        self.batch, self.length = batch, length
        self.grades: dict[int, Grade | None] = {}
        self.settings: list[_Setting] = []
        self.failed: dict[int, Finding] = {}
        self._right: tuple[object, Truth, Values] | None = None
        self._described = ""

    def add(self, plan: ir.Plan, applied: Mapping[str, Applied], ranks: int) -> None:
        """Adds a number of ranks.

        Args:
            plan: as it is compiled for them.
            applied: the style of every module of the real model that has one.
            ranks: their number.

        Raises:
            PlanError: the real widths do not fit into memory.
        """
        styles = {name: each.style for name, each in applied.items()}
        twin = twin_of(self.cls, self.config, self.tree, styles, self.all_sizes, full=self.full, widths=WIDE)
        if self.full:
            need = numbers(self.tree, twin) * self._type.itemsize * (_COPIES + ranks)
            drawn = max(node.own_size() for _, node in self.tree.walk())  # one weight at a time, in float64
            compared = _LOGITS * self.batch * self.length * text_config(self.config).vocab_size
            need += 8 * max(drawn, compared)
            if large := refused(need, ranks):
                raise PlanError([large])
        own = {here: style for name, style in styles.items() if (here := twin.name(name)) is not None}
        self.settings.append(_Setting(plan, twin, own, ranks))

    def measured(self, progress: Callable[[str, int, int], None] | None) -> Numerics:
        """Everything.

        Raises:
            PlanError: the model itself raises or computes what is no number.
        """
        where = machine()
        sides: dict[tuple[int, Kernels], Side] = {}
        kinds: tuple[Kernels, ...] = ("default", "fixed")
        for kernels in kinds:
            for setting in self.settings:
                if progress:
                    name = "torch's kernels" if kernels == "default" else "fixed shapes"
                    progress(f"tp={setting.ranks}, {name}", len(sides), len(kinds) * len(self.settings))
                if setting.ranks not in self.failed and (side := self._side(setting, kernels)):
                    sides[setting.ranks, kernels] = side
            self._right = None
        sizes, findings = [], list(self.failed.values())
        for each in self.settings:
            if each.ranks not in self.failed:
                default, fixed = sides[each.ranks, "default"], sides[each.ranks, "fixed"]
                sizes.append(
                    Measured(
                        ranks=each.ranks,
                        grade=self.grades.get(each.ranks),
                        default=default,
                        fixed=fixed,
                        blocks=any(map(blocks_of, each.styles.values())),
                    )
                )
                findings += words.judged(sizes[-1], self.reference, each.plan)
        return Numerics(
            model=self.tree.name,
            twin=self._described,
            dtype=self.dtype,
            reference=self.reference,
            batch=self.batch,
            length=self.length,
            machine=where,
            sizes=tuple(sizes),
            findings=tuple(findings),
        )

    @property
    def _type(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def _make(self, twin: Twin) -> nn.Module:
        model = twin.make(dtype=self._type, buffers=False)
        self._described = self._described or _described(model, twin, self.tree)
        return model

    def _side(self, setting: _Setting, kernels: Kernels) -> Side | None:
        """One measurement; `None`, and a finding, where the plan raises."""
        inputs = setting.twin.inputs(self.batch, self.length)
        with silence(), _kernels(kernels) as mode:
            truth, right = self._reference(setting, inputs)
            got = parallel(lambda: self._make(setting.twin), setting.styles, setting.ranks, inputs, truth)
        if isinstance(got, Crash):
            self._crashed(got, setting, setting.ranks)
            return None
        return _compared(got, right, setting.twin, inputs["input_ids"], kernels, mode)

    def _reference(self, setting: _Setting, inputs: Mapping[str, Tensor]) -> tuple[Truth, Values]:
        """What the plan is held against, computed once for numbers of ranks that have the same twin and styles."""
        key = (setting.twin.kept, setting.styles if self.reference == "tp1" else None)
        if self._right is None or self._right[0] != key:
            self._right = None
            try:
                truth, right = unsharded(lambda: self._make(setting.twin), inputs)
            except Exception as error:  # whatever the model's code raises
                raise PlanError([words.failed(error, self.dtype)]) from error
            if not bool(torch.isfinite(truth.logits).all()):
                raise PlanError([words.no_numbers(self.dtype)])
            if not truth.scale:
                raise PlanError([words.unmoved(self.dtype)])
            if self.reference == "tp1":
                found = parallel(lambda: self._make(setting.twin), setting.styles, 1, inputs, truth)
                if isinstance(found, Crash):
                    raise PlanError([self._crashed(found, setting, 1)])
                right = found
            self._right = (key, truth, right)
        return self._right[1:]

    def _crashed(self, crash: Crash, setting: _Setting, ranks: int) -> Finding:
        name = setting.twin.real(crash.module) if crash.module else ""
        self.failed[setting.ranks] = words.raised(crash, name, ranks, setting.plan)
        return self.failed[setting.ranks]


def _described(model: nn.Module, twin: Twin, tree: Tree) -> str:
    count = sum(parameter.numel() for parameter in model.parameters())
    total = tree.config.get("num_hidden_layers")
    layers = f"{len(twin.kept)} of {total} layers, " if twin.kept else ""
    return f"{layers}{count:,} parameters"


@contextmanager
def _kernels(kernels: Kernels) -> Iterator[FixedShapes | None]:
    if kernels == "default":
        yield None
        return
    with FixedShapes() as mode:
        yield mode


def _compared(got: Values, right: Values, twin: Twin, ids: Tensor, kernels: Kernels, mode: FixedShapes | None) -> Side:
    logits = farthest(got.logits, right.logits[0])
    modules = {}
    for name, (expected, *_) in right.modules.items():
        parts = got.modules.get(name)
        modules[twin.real(name)] = farthest(joined(parts, expected), expected) if parts else UNKNOWN
    gradients = {twin.real(name): _gradient(got.gradients[name], each) for name, each in right.gradients.items()}
    left = () if mode is None else (*sorted(mode.left), *(f"products of {each}" for each in sorted(mode.unsteady)))
    return Side(
        kernels=kernels,
        logits=logits,
        tokens=_tokens(got.logits, right.logits[0], ids) if logits.finite else None,
        gradients=gradients,
        modules=modules,
        left=left,
    )


def _gradient(got: list[Tensor], right: list[Tensor]) -> Distance:
    """No gradient is a gradient of zeros."""
    if not right and not got:
        return SAME
    if not right or not got:
        there = (right or got)[0]
        return farthest(got or [torch.zeros_like(there)], right[0] if right else torch.zeros_like(there))
    return farthest(got, right[0])


def _tokens(got: list[Tensor], right: Tensor, ids: Tensor) -> Tokens | None:
    """Of the rank that is farthest off; `None` where the model predicts no tokens."""
    if right.ndim != 3 or right.shape[1] != ids.shape[1] or right.shape[-1] <= int(ids.max()):
        return None
    return max((tokens(each, right, ids) for each in distinct(got)), key=lambda each: each.prob_error)
