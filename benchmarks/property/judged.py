"""What `check` says of a drawn plan: its verdict, and which entries of the plan its errors point at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from benchmarks.property.drawn import Drawn
from benchmarks.truth.case import shared
from planlang.analysis.flow.applied import setup
from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.faults import probes
from planlang.analysis.flow.passes import run
from planlang.checker import Report, report_on
from planlang.diagnostics import codes
from planlang.diagnostics.codes import Severity
from planlang.diagnostics.finding import Finding, has_errors
from planlang.loaded import Plan
from planlang.model.capture import capture_config
from planlang.model.graphs import capture_graphs
from planlang.model.template import Graphs
from planlang.model.tree import Tree
from planlang.plan.files import Program, Unit
from planlang.source import Source
from planlang.syntax.parser import parse

Verdict: TypeAlias = Literal["error", "unknown", "lone", "clean"]
_UNDECIDED = (codes.UNCHECKED_OPERATOR, codes.NO_DATAFLOW)


@dataclass(frozen=True, slots=True)
class Judged:
    """What `check` says.

    Attributes:
        verdict: `error`; else `unknown` where something could not be decided; else `lone` where it fails for single
            tokens alone, which is a warning; else `clean`.
        codes: of the errors.
        placed: the patterns of the entries that errors are placed at, first or as related.
        named: the modules, in star form, that the errors' texts name.
        texts: the errors, for a person.
    """

    verdict: Verdict
    codes: tuple[str, ...] = ()
    placed: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()


def judged(drawn: Drawn, *, places: bool = True) -> Judged:
    """Checks a plan as written, on the real model, not on its twin.

    Args:
        drawn: the plan.
        places: whether the places of errors count. They are looked for by what would cure an error, and in all
            circumstances; without them the first error will do, which is ten times as fast.
    """
    written = Written(drawn)
    if not places and _wrong_in_training(drawn, written):
        return Judged("error")
    report = checked(drawn, written, cures=places)
    errors = [each for each in report.findings if each.severity is Severity.ERROR]
    if not errors:
        undecided = any(each.code in _UNDECIDED for each in report.findings)
        lone = any(each.code is codes.FAILS_FOR_LENGTH_ONE for each in report.findings)
        if not undecided and not lone:
            assert report.proved, report.findings
        return Judged("unknown" if undecided else "lone" if lone else "clean")
    return Judged(
        "error",
        tuple(sorted({each.code.number for each in errors})),
        frozenset(pattern for each in errors for pattern in written.entries(each)),
        frozenset(name for each in errors for name in _named(each, _modules(drawn.twin, drawn.layers))),
        tuple(f"{each} ({each.help})" for each in errors),
    )


def checked(drawn: Drawn, written: Written, *, cures: bool = True) -> Report:
    """The report on a plan."""
    tree, graphs = _model(drawn.twin, drawn.layers)
    return report_on(written.plan.compile(tree, tp=drawn.tp), lambda: graphs, drawn.twin, cures=cures)


def _wrong_in_training(drawn: Drawn, written: Written) -> bool:
    """Whether there is an error before layouts are looked at, or in the first pass that is."""
    tree, graphs = _model(drawn.twin, drawn.layers)
    compiled = written.plan.compile(tree, tp=drawn.tp)
    if has_errors(compiled.findings):
        return True
    probe = probes(drawn.tp)[0]
    graph = graphs.passes[probe.kind].find(probe.batch, probe.length)
    assert graph is not None
    found = run(setup(compiled.assignments[0], graph, "tp", drawn.tp))
    return bool(found.wrong) or any(conflict.fault is not Fault.UNKNOWN for conflict, _ in found.conflicts)


class Written:
    """A drawn plan as a text, or as two where it extends the right one.

    Attributes:
        plan: what is read from it.
    """

    def __init__(self, drawn: Drawn) -> None:
        cls = shared("twins").TWINS[drawn.twin].cls
        self._lines: dict[tuple[str, int], str] = {}
        if drawn.extends:
            own = {key: text for key, text in drawn.plan.items() if drawn.base.get(key) != text}
            dropped = [key for key in drawn.base if key not in drawn.plan]
            base = self._source("base.plan", f"plan base for {cls}", drawn.base)
            lines = {key: f"{key}: {text}" for key, text in own.items()} | {key: f"drop {key}" for key in dropped}
            text = self._written("drawn.plan", [f"plan drawn for {cls}", 'extends "base.plan"'], lines)
            self.plan = _read(Source("drawn.plan", text), base)
        else:
            self.plan = _read(self._source("drawn.plan", f"plan drawn for {cls}", drawn.plan))

    def entries(self, finding: Finding) -> Iterator[str]:
        """The patterns of the entries that a finding is placed at, first or as related."""
        for place in (finding.place, *(each.place for each in finding.related)):
            if place is not None:
                line, _ = place.source.position(place.span.start)
                if pattern := self._lines.get((place.source.name, line)):
                    yield pattern

    def _source(self, name: str, head: str, entries: Mapping[str, str]) -> Source:
        return Source(name, self._written(name, [head], {key: f"{key}: {text}" for key, text in entries.items()}))

    def _written(self, name: str, head: list[str], entries: Mapping[str, str]) -> str:
        lines = [*head, ""]
        for key, text in entries.items():
            lines.append(text)
            self._lines[name, len(lines)] = key
        return "\n".join(lines) + "\n"


def _read(*sources: Source) -> Plan:
    """A plan, and those that it extends, without files."""
    parsed = [(source, *parse(source)) for source in sources]
    units = tuple(Unit(source, file) for source, file, _ in parsed)
    return Plan(sources[0], Program(units), {}, tuple(each for _, _, found in parsed for each in found))


@cache
def _model(twin: str, layers: int) -> tuple[Tree, Graphs]:
    config = _config(twin, layers)
    cls = shared("twins").TWINS[twin].cls
    return capture_config(config, cls, twin), capture_graphs(config, cls)


def _config(twin: str, layers: int) -> Any:
    config = shared("twins").make(twin, layers=layers).config
    config._attn_implementation = "sdpa"
    config._experts_implementation = None
    return config


@cache
def _modules(twin: str, layers: int) -> frozenset[str]:
    return frozenset(re.sub(r"\.\d+\.", ".*.", name) for name in shared("twins").module_names(twin, layers) if name)


def _named(finding: Finding, modules: frozenset[str]) -> Iterator[str]:
    """The modules whose names, or whose parameters' names, a finding's texts have in back-ticks."""
    for quoted in re.findall(r"`([^`]+)`", "\n".join((finding.message, *finding.notes, finding.help))):
        pattern = quoted.partition(":")[0]
        for name in _braces(pattern):
            tail = re.sub(r"\.\d+\.", ".*.", name)
            for module in modules:
                if tail in (module, f"{module}.weight", f"{module}.bias") or (
                    tail.startswith("*.") and f".{module}".endswith(tail[1:])
                ):
                    yield module


def _braces(pattern: str) -> Iterator[str]:
    found = re.fullmatch(r"(.*)\{([^{}]*)\}(.*)", pattern)
    if not found:
        yield pattern
        return
    for each in found[2].split(","):
        yield from _braces(found[1] + each + found[3])
