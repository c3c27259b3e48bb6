"""`numerics`: how far a plan moves a model's numbers, in the type in which it is trained.

`verify` asks whether a plan is right, in float64; this asks how far apart two right answers are in bfloat16.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, get_args

from planlang.analysis.cost.ledger import ledger
from planlang.analysis.cost.reductions import Grade, reductions
from planlang.analysis.flow.applied import applied_styles, setup
from planlang.analysis.flow.passes import run
from planlang.compiler import Compiled
from planlang.diagnostics.finding import Finding
from planlang.loaded import Plan, tree_named, tree_of
from planlang.model.template import Graphs
from planlang.model.tree import Tree
from planlang.model.trees import named_graphs
from planlang.opening import open_plan

if TYPE_CHECKING:
    from planlang.loaded import Model
    from planlang.runtime.numerics.report import Numerics, Reference

DEFAULT_RANKS = (2, 4)
DTYPES = {"bfloat16": 2, "float32": 4, "float64": 8}  # and the bytes of a number
BATCH, LENGTH = 2, 128  # with fewer tokens, kernels for products are the same at every width
Progress: TypeAlias = Callable[[str, int, int], None]


def numerics(
    plan: Plan | str | os.PathLike[str],
    model: Model,
    *,
    tp: int | Sequence[int] | None = None,
    cls: str | None = None,
    dtype: str = "bfloat16",
    full: bool = False,
    reference: Reference = "unsharded",
    progress: Progress | None = None,
) -> Numerics:
    """Measures how far a plan on several ranks moves a model's numbers from those of one device.

    Everything is computed twice: with torch's kernels, and with shapes that do not depend on the number of ranks, where
    what still differs is the plan's doing. A plan whose grade promises equal bits is held to that.

    Args:
        plan: a plan, or what `planlang.load` takes.
        model: a name of the catalog, a `config.json` or its folder, a configuration, or a model of transformers.
        tp: how many ranks the axis `tp` has, or several numbers of them; 2 and 4 where nothing is said.
        cls: which class of a named model.
        dtype: of weights and activations: `bfloat16`, `float32` or `float64`.
        full: the real widths, with one layer of each kind.
        reference: `unsharded`: the model without a plan; `tp1`: the model under the plan, on one rank.
        progress: is told what runs, how much is done, and of how much.

    Raises:
        PlanError: there is no such plan or model, it fails on one device, or it does not fit into memory.
        ValueError: there is no such dtype or reference, or no number of ranks.
        RuntimeError: this process is one of several: it has a process group of real processes.
    """
    from planlang.runtime.numerics.bench import Bench
    from planlang.runtime.numerics.report import Reference
    from planlang.runtime.verify.configured import configured

    if dtype not in DTYPES:
        raise ValueError(f"the dtype is {dtype!r}, not one of {', '.join(DTYPES)}")
    if reference not in get_args(Reference):
        raise ValueError(f"the reference is {reference!r}, not one of {', '.join(get_args(Reference))}")
    sizes = (tp,) if isinstance(tp, int) else tuple(DEFAULT_RANKS if tp is None else tp)
    if not sizes:
        raise ValueError("`tp` holds no number of ranks")
    plan = plan if isinstance(plan, Plan) else open_plan(plan, {})
    tree = tree_named(os.fspath(model), cls) if isinstance(model, str | os.PathLike) else tree_of(model)
    bench = Bench(
        *configured(model, tree), tree, sizes, dtype=dtype, full=full, reference=reference, batch=BATCH, length=LENGTH
    )
    findings: dict[Finding, None] = {}
    for ranks in sizes:
        compiled = plan.compile(tree, tp=ranks)
        findings |= dict.fromkeys(compiled.findings)
        if not compiled.failed and compiled.plan is not None and compiled.assignments:
            bench.add(compiled.plan, applied_styles(compiled.assignments[0], "tp"), ranks)
            bench.grades[ranks] = _grade(model, cls or tree.cls, compiled, ranks, DTYPES[dtype])
    found = bench.measured(progress)
    return replace(found, findings=(*findings, *found.findings))


def _grade(model: Model, cls: str, compiled: Compiled, ranks: int, width: int) -> Grade | None:
    """The grade of a plan on the real model; `None` where its forward pass is not known."""
    graphs = named_graphs(model.name if isinstance(model, Tree) else model, cls)
    passes = graphs.passes if isinstance(graphs, Graphs) else {}
    graph = passes["plain"].find(BATCH, LENGTH) if "plain" in passes else None
    if graph is None:
        return None
    return reductions([ledger(run(setup(compiled.assignments[0], graph, "tp", ranks)), "tp", width)]).grade
