"""`check --fix`: changes to a plan's own text that cure what a check found, each checked again on the new text.

A change is kept where the finding that it is for is gone and no other has come, but for what other rules get wrong
behind it, which could not be seen before. The text is changed at the rule and nowhere else; a plan that was formatted
stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from planlang import resources
from planlang.analysis.flow.change import Change
from planlang.checker import Report
from planlang.diagnostics import codes
from planlang.diagnostics.codes import Code, Severity
from planlang.diagnostics.finding import Finding
from planlang.loaded import Plan
from planlang.opening import parsed
from planlang.plan.files import Program
from planlang.plan.spell import style_text
from planlang.source import Source
from planlang.syntax.chunks import comments
from planlang.syntax.format import format_source
from planlang.syntax.nodes import AnyStatement, File, Rule, When
from planlang.syntax.parser import parse

MOST_ROUNDS = 20
_GRADIENTS = {codes.INCOMPLETE_GRADIENT, codes.DOUBLED_GRADIENT}

Check = Callable[[Plan], Sequence[Report]]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A plan after its fixes.

    Attributes:
        plan: with the new text.
        reports: what a check of it finds.
        changes: what was changed, in order.
    """

    plan: Plan
    reports: tuple[Report, ...]
    changes: tuple[Change, ...] = ()


def unfixable(plan: Plan) -> Finding | None:
    """Why the text of a plan cannot be changed, where it cannot."""
    name = plan.source.name
    if not isinstance(plan.content, Program):
        message = f"`{name}` is no text in the language, so `--fix` leaves it as it is"
        return Finding(code=codes.OTHER_FILE, message=message, help="fix the `.plan` file that it was made from")
    bundled = next((key for key, path in resources.bundled_plans().items() if path == plan.source.path), None)
    if bundled is not None:
        message = f"`{bundled}` is a bundled plan, which `--fix` leaves as it is"
        help_ = f'write a plan of your own with `extends "{bundled}"` and fix that'
        return Finding(code=codes.OTHER_FILE, message=message, help=help_)
    return None


def fix(plan: Plan, check: Check) -> Fixed:
    """Applies the cures that a check knows, one after the other, as long as one helps.

    Args:
        plan: one whose text may be changed: see `unfixable`.
        check: checks a plan.
    """
    fixed = Fixed(plan, tuple(check(plan)))
    for _ in range(MOST_ROUNDS):
        following = next(_better(fixed, check), None)
        if following is None:
            break
        fixed = following
    return fixed


def _better(fixed: Fixed, check: Check) -> Iterator[Fixed]:
    """Each change that cures its finding and brings no other."""
    before = _told(fixed.reports)
    for finding, change in _cures(fixed.reports):
        source = _edited(fixed.plan, finding, change)
        if source is None:
            continue
        plan = parsed(source, fixed.plan.options)
        reports = tuple(check(plan))
        after = _told(reports)
        changed = style_text(change.style) if change.style else ""
        hidden = finding.code not in _GRADIENTS
        new = after - before
        mine = any(rule.endswith(changed) for _, _, rule in new) if changed else False
        broken = any(code.number < "PLN4" for code, _, _ in new)  # the text no longer compiles
        if _key(finding) not in after and not broken and (not new or (hidden and not mine)):
            yield Fixed(plan, reports, (*fixed.changes, change))


Told: TypeAlias = "tuple[Code, str, str]"


def _told(reports: Sequence[Report]) -> set[Told]:
    """What was found, at which rule, wherever that stands."""
    findings = (finding for report in reports for finding in report.findings)
    return {_key(each) for each in findings if each.severity is not Severity.NOTE}


def _key(finding: Finding) -> Told:
    return (finding.code, finding.message, finding.place.text if finding.place else "")


def _cures(reports: Sequence[Report]) -> Iterator[tuple[Finding, Change]]:
    for report in reports:
        for checked in report.checked:
            for finding, change in zip(checked.findings, checked.changes, strict=True):
                if change is not None:
                    yield finding, change


def _edited(plan: Plan, finding: Finding, change: Change) -> Source | None:
    """The text with a change; `None` where that is none, or would lose a comment."""
    source = plan.source
    file, _ = parse(source)
    rules = {rule.span: rule for rule in _rules(file.statements)}
    old = change.old.rule if change.old else None
    text: str | None
    if change.old is not None and (old is None or old.place is None):
        return None
    if old is not None and old.place is not None and old.place.source is source:
        node = rules.get(old.place.span)
        text = None if node is None else _at_rule(source, node, change)
    else:
        text = _added(plan, file, finding, change)
    if text is None or [each.text for each in comments(text)] != [each.text for each in comments(source.text)]:
        return None
    made = replace(source, text=text)
    if format_source(source)[0] == source.text:
        made = replace(source, text=format_source(made)[0] or text)
    return made


def _rules(statements: Sequence[AnyStatement]) -> Iterator[Rule]:
    for each in statements:
        if isinstance(each, Rule):
            yield each
        elif isinstance(each, When):
            yield from _rules((*each.then, *each.otherwise))


def _at_rule(source: Source, rule: Rule, change: Change) -> str:
    """Another style behind a rule's colon, or the rule's lines taken out."""
    if change.style is not None:
        span = rule.style.span
        return source.text[: span.start] + style_text(change.style) + source.text[span.end :]
    first, _ = source.position(rule.span.start)
    last, _ = source.position(rule.span.end)
    starts = [*source.line_starts, len(source.text)]
    return source.text[: starts[first - 1]] + source.text[starts[last] :]


def _added(plan: Plan, file: File, finding: Finding, change: Change) -> str | None:
    """New lines behind the rule that the finding is about, or at the end; they replace what is inherited."""
    source, place = plan.source, finding.place
    at = len(source.text)
    beside = [each for each in file.statements if isinstance(each, Rule) and place and each.span == place.span]
    if beside and change.old is None and place and place.source is source:
        line, _ = source.position(beside[0].span.end)
        at = source.line_starts[line] if line < len(source.line_starts) else at
    end = "\r\n" if "\r\n" in source.text else "\n"
    before = source.text[:at]
    before += "" if before.endswith("\n") else end

    def text(mark: str) -> str:
        lines = [f"{pattern}{mark}: {style_text(change.style)}" for pattern in change.patterns] if change.style else []
        lines = lines or [f"drop {pattern}" for pattern in change.patterns]
        return before + end.join(lines) + end + source.text[at:]

    known = _unmatched(plan)
    made = map(text, ("", "?"))  # a class that the plan names may lack the modules
    return next((each for each in made if _unmatched(parsed(replace(source, text=each), plan.options)) <= known), None)


def _unmatched(plan: Plan) -> set[str]:
    """What is said of patterns that match nothing in a class that the plan names."""
    findings = plan.compile(None).findings
    return {each.message for each in findings if each.code in (codes.UNMATCHED_RULE, codes.UNMATCHED_ALTERNATIVE)}
