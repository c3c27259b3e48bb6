"""`verify`: a plan is run on every rank in this process, on a tiny twin of the model, and compared with one device.

The checker explains and this proves: it runs torch's own code. They share nothing but the plan and the module tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from planlang.analysis.flow.applied import applied_styles
from planlang.checker import check
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError, has_errors
from planlang.loaded import Plan, tree_named, tree_of
from planlang.opening import open_plan

if TYPE_CHECKING:
    from planlang.loaded import Model
    from planlang.model.tree import Tree
    from planlang.plan import ir
    from planlang.runtime.verify.cases import Case
    from planlang.runtime.verify.result import Result
    from planlang.runtime.verify.twin import Twin

DEFAULT_RANKS = (2, 4)
DEVICES = ("cpu", "cuda")
UNCHECKED = (codes.UNCHECKED_OPERATOR, codes.NO_DATAFLOW)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found.

    Attributes:
        model: what the twin is a twin of.
        results: every run.
        findings: what the compiler found, and one finding for each number of ranks on which the plan fails.
        twin: what was run: `1 of 36 layers, 47,008 parameters`.
    """

    model: str
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    twin: str = field(default="")

    @property
    def ok(self) -> bool:
        """Whether there was something to run, and all of it was right."""
        return bool(self.results) and not has_errors(self.findings)


def verify(
    plan: Plan | str | os.PathLike[str],
    model: Model,
    *,
    tp: int | Sequence[int] | None = None,
    cls: str | None = None,
    full: bool = False,
    workers: int = 0,
    processes: int = 0,
    device: str = "cpu",
    limit: float = 120.0,
    progress: Progress | None = None,
) -> Verified:
    """Runs a plan on all ranks and compares it with one device, in float64.

    Compared are the logits, every gradient on every rank, and the weights after a step of AdamW; at several batch sizes
    and lengths, with a padding mask, with eager attention, with micro-batches and with activation checkpointing.

    Args:
        plan: a plan, or what `planlang.load` takes.
        model: a name of the catalog, a `config.json` or its folder, a configuration, or a model of transformers.
        tp: how many ranks the axis `tp` has, or several numbers of them; 2 and 4 where nothing is said.
        cls: which class of a named model.
        full: the real widths, with one layer of each kind.
        workers: how many processes to fork for the runs; 0 runs everything in this process.
        processes: run on so many real processes, one a rank, which `torchrun` starts; `tp` is their number then.
        device: what the real processes compute on: `cpu`, with gloo, or `cuda`, a GPU each, with nccl.
        limit: seconds that a run on real processes may take.
        progress: is told what runs, how much was begun before, and of how much.

    Raises:
        PlanError: there is no such plan or model, it fails on one device, it does not fit into memory, or there are not
            so many devices.
        ValueError: `tp` and `processes` differ, there is no such device, or a number is below its least.
        RuntimeError: this process is one of several: it has a process group of real processes.
    """
    from planlang.runtime.verify.cases import cases
    from planlang.runtime.verify.configured import configured, missing_modules
    from planlang.runtime.verify.memory import too_large
    from planlang.runtime.verify.processes import missing_devices, run_processes
    from planlang.runtime.verify.subject import Subject
    from planlang.runtime.verify.twin import twin_of
    from planlang.runtime.verify.workers import run_all, single_thread, tasks_of

    plan = plan if isinstance(plan, Plan) else open_plan(plan, {})
    if workers < 0 or processes < 0 or not limit > 0:
        raise ValueError(f"workers={workers}, processes={processes}, limit={limit}: none may be negative, nor limit 0")
    sizes = _sizes(tp, processes, device)
    if processes and (missing := missing_devices(device, processes)):
        raise PlanError([missing])
    tree = tree_named(os.fspath(model), cls) if isinstance(model, str | os.PathLike) else tree_of(model)
    made, config = configured(model, tree)
    findings: dict[Finding, None] = {}
    subjects: dict[int, tuple[Subject, ir.Plan]] = {}
    for ranks in sizes:
        compiled = plan.compile(tree, tp=ranks)
        findings |= dict.fromkeys(compiled.findings)
        if compiled.failed or compiled.plan is None or not compiled.assignments:
            continue
        applied = applied_styles(compiled.assignments[0], "tp")
        styles = {name: each.style for name, each in applied.items()}
        twin = twin_of(made, config, tree, styles, sizes, full=full)
        refused = missing_modules(model, twin, styles) or too_large(tree, twin, ranks, own=bool(processes))
        if refused:
            raise PlanError([refused])
        subjects[ranks] = (Subject(twin, applied, ranks), compiled.plan)
    tasks = tasks_of([subject for subject, _ in subjects.values()], cases)
    total = sum(len(task.cases) for task in tasks)
    found: dict[tuple[int, Case], Result] = {}

    begun = count()

    def told(what: str) -> None:
        if progress:
            progress(what, next(begun), total)

    runs = run_all(tasks, min(workers, 1) if full else workers, told)
    if processes:
        subject = next((subject for subject, _ in subjects.values()), None)
        runs = run_processes(subject, cases(processes), device, limit, told) if subject else iter(())
    for result in runs:
        found[result.ranks, result.case] = result
    results = tuple(found[ranks, case] for ranks in subjects for case in cases(ranks))
    for ranks, (subject, resolved) in subjects.items():
        failed = tuple(each for each in results if each.ranks == ranks and not each.right)
        if failed:
            told(f"tp={ranks}, looking for the cause")
            with single_thread(not full):
                failure = subject.failure(failed, len(cases(ranks)), _foreseen(plan, model, ranks, cls))
            findings[failure.finding(resolved)] = None
    described = _described(next(iter(subjects.values()))[0].twin, tree) if subjects else ""
    return Verified(tree.name, results, tuple(findings), described)


def _sizes(tp: int | Sequence[int] | None, processes: int, device: str) -> tuple[int, ...]:
    """The numbers of ranks, each once."""
    if device not in DEVICES:
        raise ValueError(f"the device is one of {DEVICES}, not {device!r}")
    if device != "cpu" and not processes:
        raise ValueError(f"only real processes run on {device!r}: give their number")
    if not isinstance(tp, int | None) and (not isinstance(tp, Sequence) or not all(isinstance(n, int) for n in tp)):
        raise TypeError(f"`tp` is {tp!r}, not a whole number or several")
    if tp is not None and not isinstance(tp, int) and not tp:
        raise ValueError("`tp` holds no number of ranks")
    sizes = dict.fromkeys((tp,) if isinstance(tp, int) else tp or ())
    if processes and sizes and list(sizes) != [processes]:
        raise ValueError(f"{processes} processes are {processes} ranks, not {list(sizes)}")
    return (processes,) if processes else tuple(sizes) or DEFAULT_RANKS


def _foreseen(plan: Plan, model: Model, ranks: int, cls: str | None) -> tuple[Finding, ...]:
    """The errors that the checker finds, and what it says it cannot check."""
    found = (each for report in check(plan, model, tp=ranks, cls=cls) for each in report.findings)
    return tuple(dict.fromkeys(each for each in found if has_errors([each]) or each.code in UNCHECKED))


def _described(twin: Twin, tree: Tree) -> str:
    size = sum(parameter.numel() for parameter in twin.make().parameters())
    total = tree.config.get("num_hidden_layers")
    layers = f"{len(twin.kept)} of {total} layers, " if twin.kept else ""
    return f"{layers}{size:,} parameters"
