"""The targets `yaml` and `json`: the whole resolved plan, which loads back equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from plan_texts import BUNDLED, TEXTS

import planlang
from planlang.targets.data import SCHEMA

SOURCES = {**dict.fromkeys(BUNDLED), **TEXTS}
EXPECTED = Path(__file__).with_name("expected")


def loaded(name: str) -> tuple[planlang.Plan, dict[str, Any]]:
    """A plan, and what it is compiled for."""
    text = SOURCES[name]
    if text is None:
        return planlang.load(name), {}
    return planlang.loads(text.text, **dict(text.options)), {"model": text.model or None, "tp": text.tp}


@pytest.mark.parametrize("target", ["yaml", "json"])
@pytest.mark.parametrize("name", SOURCES)
def test_data_loads_back_to_the_same_plan(name: str, target: str, tmp_path: Path) -> None:
    original, settings = loaded(name)
    path = tmp_path / f"written.{target}"
    path.write_text(planlang.compile(original, target=target, **settings), encoding="utf-8", newline="")
    again = planlang.load(path)
    assert again.resolved(**settings) == original.resolved(**settings)
    assert repr(again.styles(**settings)) == repr(original.styles(**settings))
    assert planlang.compile(again, target=target, **settings) == path.read_bytes().decode()


@pytest.mark.parametrize("name", SOURCES)
def test_yaml_and_json_hold_the_same(name: str) -> None:
    original, settings = loaded(name)
    text = planlang.compile(original, target="json", **settings)
    data = json.loads(text)
    assert next(iter(data)) == "schema"
    assert data["schema"] == SCHEMA
    assert text.startswith('{\n  "schema": ')
    as_yaml = planlang.compile(original, target="yaml", **settings)
    assert as_yaml.startswith(f"schema: {SCHEMA}\n")
    assert yaml.safe_load(as_yaml) == data
    plan = original.resolved(**settings)
    assert data["name"] == plan.name
    assert data["description"] == list(plan.description)
    assert len(data["entries"]) == len(plan.entries)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled(name: str, update: bool) -> None:
    written = planlang.compile(name, target="yaml")
    expected = EXPECTED / f"{name}.yaml"
    if update:
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(written, encoding="utf-8", newline="\n")
    assert written == expected.read_text(encoding="utf-8")
