"""A plan of 10,000 rules, parsed and resolved, beside PyYAML's safe loader on the same content as YAML."""

from __future__ import annotations

import yaml

from benchmarks.timing import in_turn, report
from planlang.plan.files import load
from planlang.plan.resolve import Facts, resolve
from planlang.source import Source
from planlang.syntax.parser import parse

RULES = 10_000


def texts() -> tuple[str, str]:
    """The plan in the language, and the same rules as YAML mappings."""
    names = [f"model.layers.{i}.self_attn.o_proj" for i in range(RULES)]
    plan = "plan large for Qwen3ForCausalLM\n" + "".join(f"{n}: colwise(in=shard(-1), out=replicate)\n" for n in names)
    data = "plan: large\nclasses: [Qwen3ForCausalLM]\nrules:\n" + "".join(
        f"  {n}: {{style: colwise, in: shard(-1), out: replicate}}\n" for n in names
    )
    return plan, data


def main() -> None:
    """Prints both ratios."""
    plan, data = texts()
    source = Source("large.plan", plan)
    assert len(yaml.safe_load(data)["rules"]) == RULES
    assert len(parse(source)[0].statements) == RULES + 1

    def parse_and_resolve() -> None:
        program, findings = load(source)
        resolved, more = resolve(program, Facts())
        assert resolved is not None
        assert len(resolved.rules) == RULES
        assert not findings + more

    report(f"parse {RULES} rules / yaml.safe_load", in_turn(lambda: parse(source), lambda: yaml.safe_load(data)), 1.0)
    report(
        f"parse and resolve {RULES} rules / yaml.safe_load",
        in_turn(parse_and_resolve, lambda: yaml.safe_load(data)),
        1.5,
    )


if __name__ == "__main__":
    main()
