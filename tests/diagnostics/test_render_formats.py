"""The table of formats and the closing summary."""

import subprocess
import sys

import pytest

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding
from planlang.diagnostics.render import FORMATS, concise, full, github, json, render, sarif, summary

ERROR = Finding(code=codes.NOT_TEXT, message="m")
WARNING = Finding(code=codes.UNUSED_LET, message="m")
NOTE = Finding(code=codes.IMPORTS_PLANLANG, message="m")


def test_each_format_is_its_renderer():
    renderers = dict(zip(FORMATS, (full, concise, json, sarif, github), strict=True))
    for name, module in renderers.items():
        for color in (False, True):
            assert render([ERROR, NOTE], name, color=color) == module.render([ERROR, NOTE], color=color)


def test_unknown_format():
    with pytest.raises(ValueError, match="no format 'xml'; there are full, concise, json, sarif, github"):
        render([], "xml")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], ""),
        ([ERROR], "1 error"),
        ([WARNING, ERROR, ERROR], "2 errors, 1 warning"),
        ([NOTE, NOTE, WARNING, WARNING], "2 warnings, 2 notes"),
    ],
)
def test_summary(findings, expected):
    assert summary(findings) == expected


def test_only_what_is_used_is_imported():
    script = "import sys; from planlang.diagnostics.render import render; render([], 'full'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"click", "rich", "json", "planlang.diagnostics.render.sarif"} & set(done.stdout.split())
