"""Data that somebody edited: whatever it holds is used or refused, in no time, and no text brings along more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planlang
from planlang.diagnostics.finding import Finding

STYLE = {"name": "colwise", "in": "replicate", "out": "shard(-1)", "local": True}
RULE = {"rule": "*.mlp.up_proj", "style": STYLE}
GOOD: dict[str, Any] = {
    "schema": "planlang/plan/1",
    "name": "x",
    "classes": ["Qwen3ForCausalLM"],
    "description": [],
    "mesh": [{"axis": "tp", "size": None}],
    "options": {},
    "entries": [RULE],
}


def read(folder: Path, text: str, name: str = "x.json") -> planlang.Plan | Finding:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    try:
        return planlang.load(path)
    except planlang.PlanError as error:
        (finding,) = error.findings
        assert finding.code.name == "bad-plan-data"
        return finding


def with_style(**changed: Any) -> dict[str, Any]:
    return GOOD | {"entries": [RULE | {"style": STYLE | changed}]}


def test_what_is_right_is_read(tmp_path: Path) -> None:
    plan = read(tmp_path, json.dumps(GOOD))
    assert isinstance(plan, planlang.Plan)
    assert list(plan.styles()) == ["model.layers.*.mlp.up_proj"]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (with_style(**{"in": "replicate, local=false"}), "not one value"),
        (with_style(**{"in": "replicate), prepare(in=replicate"}), "`,` does not fit"),
        (with_style(**{"in": "replicate # and more"}), "x.json"),
        (with_style(name="colwise(in=replicate)"), "arguments stand beside it"),
        (with_style(**{"local=false, in": "replicate"}), "no identifier"),
        (with_style(axis="dp"), "mesh axis `dp`"),
        (with_style(local=None), "an argument is None"),
        (GOOD | {"entries": [{"expect": "*.mlp", "in": ["replicate, x=1"]}]}, "not one value"),
        (GOOD | {"mesh": [{"axis": "tp"}, {"axis": "tp"}]}, "named twice"),
        (GOOD | {"mesh": [{"axis": "t p"}]}, "no identifier"),
        (GOOD | {"mesh": [{"axis": "in"}]}, "word of the language"),
        (GOOD | {"mesh": [{"axis": "dp"}]}, "mesh axis `tp`"),
        (GOOD | {"mesh": [{"axis": "tp", "sise": 4}]}, "did you mean `size`"),
        (GOOD | {"classes": ["A", "A"]}, "named twice"),
        (GOOD | {"entreis": []}, "did you mean `entries`"),
        (GOOD | {"entries": [RULE | {"levle": 1}]}, "did you mean `level`"),
        (GOOD | {"entries": [RULE | {"override": "yes"}]}, "`override` is 'yes'"),
        (GOOD | {"decided": {"sizes": {"pp": 2}}}, "no key 'pp'"),
        (GOOD | {"options": {"a b": 2}}, "no identifier"),
    ],
)
def test_what_would_be_dropped_or_smuggled_in_is_refused(data: dict[str, Any], wanted: str, tmp_path: Path) -> None:
    finding = read(tmp_path, json.dumps(data))
    assert isinstance(finding, Finding)
    assert wanted in finding.message


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
def test_a_key_that_stands_twice(name: str, tmp_path: Path) -> None:
    text = json.dumps(GOOD).replace('"local": true', '"local": true, "local": false')
    finding = read(tmp_path, text, name)
    assert isinstance(finding, Finding)
    assert "'local' stands twice" in finding.message
    assert (finding.place is not None) == (name == "x.yaml")


@pytest.mark.parametrize(
    "value",
    ["!!timestamp foo", "!!int x", "!!float x", "!!bool x", "!!set x", "!!omap x", "!!python/object:os.system x",
     "2020-99-99", "{[a]: b}", '"\\ud800"', "!!binary é", "=", "[<<, 1]", "{<<: 3}"],
)  # fmt: skip
def test_tags_and_scalars_of_yaml(value: str, tmp_path: Path) -> None:
    finding = read(tmp_path, f"schema: planlang/plan/1\nname: {value}\n", "x.yaml")
    assert isinstance(finding, Finding)


@pytest.mark.timeout(20)
def test_aliases_that_multiply(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    bomb = "\n".join(lines)
    for text in (f"{bomb}\nschema: planlang/plan/1\nclasses: *a29\n", "a: &a {b: *a}", "a: &a [[*a]]"):
        finding = read(tmp_path, text, "x.yaml")
        assert isinstance(finding, Finding)
        assert "alias" in finding.message
        with pytest.raises(planlang.PlanError, match="alias"):
            planlang.load_config(tmp_path / "x.yaml", "a")
    plan = read(tmp_path, json.dumps(GOOD).replace('"replicate"', "&one replicate", 1), "x.yaml")
    assert isinstance(plan, planlang.Plan), "an anchor alone is nothing bad"


@pytest.mark.parametrize("target", ["json", "yaml"])
def test_an_argument_called_name_comes_back(target: str, tmp_path: Path) -> None:
    text = 'plan x for Qwen3ForCausalLM\nlm_head: custom "some.module:Style"(name="a # b", arguments=3, in=replicate)\n'
    original = planlang.loads(text)
    path = tmp_path / f"x.{target}"
    path.write_text(planlang.compile(original, target=target))
    assert planlang.load(path).resolved() == original.resolved()
