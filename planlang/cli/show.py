"""`planlang show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from planlang.analysis.assign import Assignment
from planlang.analysis.coverage import Uncovered, local_shapes, uncovered
from planlang.analysis.keys import Keyed
from planlang.cli.options import Request, compiling
from planlang.cli.report import Reporter
from planlang.cli.show_cost import Asked, costing, refuse_needless, work_out
from planlang.cli.tables import print_table
from planlang.compiler import Compiled
from planlang.diagnostics.finding import PlanError
from planlang.layout import Conversion, Layout
from planlang.model.tree import Parameter
from planlang.plan import ir
from planlang.plan.styles import Attention, Colwise, Custom, Prepare, Replicated, Rowwise, Skip
from planlang.plan.styles import Sequence as SequenceStyle
from planlang.source import printable
from planlang.syntax.printer import target_text

MOST_UNCOVERED = 12


@click.command("show")
@compiling()
@costing
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(
    *,
    plan: str,
    model: str | None,
    cls: str | None,
    tp: int | None,
    options: tuple[str, ...],
    style: str,
    color: str,
    as_json: bool,
    **costs: Any,
) -> int:
    """Show what PLAN does to every module of a model: styles, layouts, what a rank holds, and what no rule reaches.

    \b
        planlang show qwen_stable --model Qwen/Qwen3-8B --tp 8
        planlang show qwen_stable --model Qwen/Qwen3-8B --tp 8 --comm --length 8192
    """  # noqa: D301 (the escape is click's mark for lines that stay as they are)
    reporter = Reporter(style, color)
    asked = Asked(**costs)
    if not asked:
        refuse_needless()
    try:
        compiled = Request(plan=plan, model=model, cls=cls, tp=tp, options=options).compile()
    except PlanError as error:
        return reporter.report(error.findings)
    code = reporter.report(compiled.findings)
    if compiled.plan is None or not compiled.assignments:
        return code
    try:
        found = work_out(compiled, asked, model, cls, _sizes(compiled)) if asked else None
    except PlanError as error:
        return reporter.report(error.findings)
    if as_json:
        from planlang.cli.show_cost_data import cost_data

        click.echo(json.dumps({**_data(compiled), **dict(cost_data(found) if found else ())}, indent=2))
    elif found:
        from planlang.cli.show_cost_text import print_costs

        click.echo(_title(compiled, compiled.plan))
        print_costs(found)
    else:
        _print(compiled, compiled.plan)
    return code


def _title(compiled: Compiled, plan: ir.Plan) -> str:
    settings = compiled.settings
    sizes = _sizes(compiled)
    made_for = f"{settings.model.name} ({settings.model.cls})" if settings.model else ", ".join(plan.classes)
    mesh = ", ".join(f"{axis.name}={sizes[axis.name]}" if axis.name in sizes else axis.name for axis in plan.mesh)
    return f"{plan.name} on {printable(made_for)}, mesh {mesh}"


def _print(compiled: Compiled, plan: ir.Plan) -> None:
    rows = [(keyed.key or "(the model)", *_boundary(keyed), _parameters(keyed, compiled)) for keyed in compiled.keys]
    click.echo(_title(compiled, plan))
    print_table(("module", "style", "in", "out", "parameters on a rank"), rows)
    for line in _expectations(plan):
        click.echo(line)
    if compiled.settings.model:
        _print_uncovered(compiled.assignments[0])
    else:
        click.echo("for sizes, and what no rule reaches, give --model")


def _sizes(compiled: Compiled) -> dict[str, int]:
    plan = compiled.plan
    assert plan is not None
    sizes = {axis.name: axis.size or compiled.settings.sizes.get(axis.name) for axis in plan.mesh}
    return {name: size for name, size in sizes.items() if size}


def _boundary(keyed: Keyed) -> tuple[str, str, str]:
    """The style of a rule, and the layouts in and out; `local` where plain tensors leave the module."""
    match keyed.rule.style:
        case Colwise() | Rowwise() as style:
            return _word(style), str(style.in_), _kept(str(style.out), style.local)
        case SequenceStyle() as style:
            return _word(style), f"shard({style.dim})", _kept(f"shard({style.dim})", style.local)
        case Prepare() as style:
            by_name = [f"{name}: {conversion}" for name, conversion in style.keywords]
            inputs = ", ".join(by_name or map(_conversion, style.inputs))
            outputs = ", ".join(map(_conversion, style.outputs))
            return style.word, _kept(inputs, style.local_in), _kept(outputs, style.local_out)
        case Replicated() as style:
            return f"{style.word}, grad={style.grad}", "", ""
        case Attention() as style:
            return _word(style), "", ""
        case Custom() as style:
            return f"custom {style.path}", "", ""
        case Skip() as style:
            return style.word, "", ""


def _word(style: Colwise | Rowwise | SequenceStyle | Attention) -> str:
    return f"{style.word}, {style.invariant} blocks" if style.invariant else style.word


def _conversion(conversion: Conversion | None) -> str:
    return "none" if conversion is None else str(conversion)


def _kept(layouts: str, local: bool) -> str:
    return f"{layouts}, local" if layouts and local else layouts


def _parameters(keyed: Keyed, compiled: Compiled) -> str:
    """Each parameter with the shape that a rank holds, behind it the whole shape where that is another."""
    shapes = local_shapes(keyed.rule.style, keyed.site.node, _sizes(compiled))
    return ", ".join(_parameter(parameter, local) for parameter, local in shapes)


def _parameter(parameter: Parameter, local: tuple[int, ...]) -> str:
    whole = f" of {_shape(parameter.shape)}" if local != parameter.shape else ""
    return f"{parameter.name} {_shape(local)}{whole}"


def _shape(shape: Sequence[int]) -> str:
    return "[" + ", ".join(str(dim) if dim >= 0 else "?" for dim in shape) + "]"


def _expectations(plan: ir.Plan) -> Iterator[str]:
    for entry in plan.entries:
        if isinstance(entry, ir.Expect):
            claims = [f"in={_layouts(entry.in_)}"] if entry.in_ else []
            if entry.keywords:
                claims.append("in={" + ", ".join(f"{name}: {layout}" for name, layout in entry.keywords) + "}")
            claims += [f"out={_layouts(entry.out)}"] if entry.out else []
            yield f"expects {target_text(entry.target)}: {', '.join(claims)} (`planlang check` proves or refutes it)"


def _layouts(layouts: Sequence[Layout | None]) -> str:
    texts = ["none" if layout is None else str(layout) for layout in layouts]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _print_uncovered(assignment: Assignment) -> None:
    left = [each for each in uncovered(assignment) if not each.skipped]
    share = sum(each.share for each in left)
    omitted = assignment.sites.tree.omitted
    if omitted:
        click.echo(f"not in this tree: {', '.join(omitted)}")
    if not left:
        click.echo("a rule shards or replicates every parameter")
        return
    rows = [_uncovered_row(each) for each in left[:MOST_UNCOVERED]]
    if len(left) > MOST_UNCOVERED:
        rest = left[MOST_UNCOVERED:]
        rows.append(
            (f"and {len(rest)} more", "", f"{sum(e.size for e in rest):,}", f"{sum(e.share for e in rest):.3%}")
        )
    click.echo(
        f"no rule shards or replicates {share:.3%} of the parameters: they stay plain tensors, whole on every rank"
    )
    print_table(("parameter", "shape", "numbers", "share"), rows, right=("numbers", "share"))


def _uncovered_row(each: Uncovered) -> tuple[str, str, str, str]:
    times = f"{each.count} x " if each.count > 1 else ""
    return each.name, f"{times}{_shape(each.shape)}", f"{each.size:,}", f"{each.share:.3%}"


def _data(compiled: Compiled) -> dict[str, object]:
    plan, model = compiled.plan, compiled.settings.model
    assert plan is not None
    rows = []
    for keyed in compiled.keys:
        style, into, out = _boundary(keyed)
        shapes = local_shapes(keyed.rule.style, keyed.site.node, _sizes(compiled))
        parameters = [{"name": p.name, "shape": list(p.shape), "local_shape": list(local)} for p, local in shapes]
        line = keyed.rule.place.start[0] if keyed.rule.place else None
        rows.append(
            {"module": keyed.key, "style": style, "in": into, "out": out, "parameters": parameters, "line": line}
        )
    return {
        "plan": plan.name,
        "model": model.name if model else None,
        "classes": [model.cls] if model else list(plan.classes),
        "mesh": {axis.name: _sizes(compiled).get(axis.name) for axis in plan.mesh},
        "rules": rows,
        "expects": list(_expectations(plan)),
        "uncovered": [asdict(each) for each in uncovered(compiled.assignments[0])] if model else [],
    }
