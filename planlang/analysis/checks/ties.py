"""Tied weights: one tensor under two names must be placed as one."""

from __future__ import annotations

from collections.abc import Iterator

from planlang.analysis.checks.case import Case
from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, Related
from planlang.layout import Layout, Replicate, Shard
from planlang.model.tree import Kind
from planlang.plan import ir
from planlang.plan.styles import Colwise, Custom, Replicated, Rowwise, Sequence


def check_ties(case: Case) -> Iterator[Finding]:
    """Both modules of a tied pair have a rule, or neither has, and the rules place the weight alike.

    Any rule on one of the two makes its parameter a new object: the tie is lost, and each half trains on its part of
    the gradient (38 to 47 % off, with the forward pass exact).
    """
    if not case.whole:
        return
    for group in case.tree.tied:
        yield from _check_group(case, group, sure=True)
    for group in case.tree.may_tie:
        yield from _check_group(case, group, sure=False)


def _check_group(case: Case, group: tuple[str, ...], *, sure: bool) -> Iterator[Finding]:
    modules = [name.rpartition(".")[0] for name in group]
    rules = {module: _placing(case.rule_at(module)) for module in modules}
    ruled = {module: rule for module, rule in rules.items() if rule}
    free = [module for module, rule in rules.items() if rule is None]
    if ruled and free:
        module, rule = next(iter(ruled.items()))
        yield _half_ruled(case, module, rule, free[0], sure=sure)
    elif sure and len(ruled) > 1:
        placements = {module: _weight(case, module, rule) for module, rule in ruled.items()}
        known = {module: placement for module, placement in placements.items() if placement is not None}
        if len(set(known.values())) > 1:
            yield _differ(ruled, known)


def _placing(rule: ir.Rule | None) -> ir.Rule | None:
    """The rule, if it is one that makes the module's parameters DTensors."""
    return rule if rule and isinstance(rule.style, Colwise | Rowwise | Sequence | Replicated | Custom) else None


def _half_ruled(case: Case, module: str, rule: ir.Rule, other: str, *, sure: bool) -> Finding:
    style = "rowwise(in=replicate)" if "embed" in other else "colwise(out=shard(-1), local=false)"
    existing = case.rule_at(other)
    if existing:
        instead = f"give `{other}` the style `{style}` in place of `{existing.style.word}`, or leave both out"
    else:
        instead = f"add `{other}: {style}`, or leave both out"
    if sure:
        message = f"`{module}` and `{other}` share one weight, and only `{module}` has a rule"
        notes = ("the tie would be lost: each of the two would train on its own part of the gradient",)
        return Finding(
            code=codes.HALF_RULED_TIE,
            message=message,
            place=rule.place,
            notes=notes,
            help=instead,
        )
    message = f"some models of `{case.tree.cls}` tie `{module}` and `{other}`, and only `{module}` has a rule"
    help_ = f"{instead}, or compile with `--model` for one that does not tie them"
    return Finding(code=codes.MAY_BE_TIED, message=message, place=rule.place, help=help_)


def _differ(ruled: dict[str, ir.Rule], placements: dict[str, Layout]) -> Finding:
    (first, a), (second, b) = list(placements.items())[:2]
    place = ruled[first].place
    related = (Related(place=place, message=f"places it as `{a}`"),) if place else ()
    return Finding(
        code=codes.TIE_PLACEMENTS_DIFFER,
        message=f"`{first}` and `{second}` share one weight, and their rules place it as `{a}` and as `{b}`",
        place=ruled[second].place,
        label=f"places it as `{b}`",
        related=related,
        help=f"the placement of `{first}` holds for both; "
        "`rowwise(in=replicate)` for the embedding and `colwise` for the head agree",
    )


def _weight(case: Case, module: str, rule: ir.Rule) -> Layout | None:
    """How a rule places the weight of a module, as torch's styles do; `None` where only the style knows."""
    node = case.tree.find(module)
    linear = node is not None and node.kind is Kind.LINEAR
    match rule.style:
        case Colwise():
            return Shard(0) if linear else Shard(1)
        case Rowwise():
            return Shard(1) if linear else Shard(0)
        case Sequence() | Replicated():
            return Replicate()
        case _:
            return None
