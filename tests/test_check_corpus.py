"""Plans and word for word what `planlang check` says of them.

A case is a pair of files in `corpus/check`: `NAME.plan`, whose first line holds the options of the command, and
`NAME.txt` with what the command writes: findings, then the verdict. `pytest tests/test_check_corpus.py --update` writes
the expected files anew. Cases named `right_...` must have no error and be proved right.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planlang.cli.main import run
from tests.test_corpus import FINDINGS, flags

CHECK = FINDINGS.with_name("check")
CASES = sorted(path.stem for path in CHECK.glob("*.plan"))
_VERDICT = "right, forward and backward"


@pytest.mark.parametrize("name", CASES)
def test_check(name: str, update: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECK)
    code = run(["check", f"{name}.plan", *flags(CHECK / f"{name}.plan"), "--color", "never"])
    captured = capsys.readouterr()
    written = captured.err + captured.out
    expected = CHECK / f"{name}.txt"
    if update:
        expected.write_text(written, encoding="utf-8", newline="\n")
    assert expected.exists(), (
        f"{expected.name} is missing: run `pytest tests/test_check_corpus.py --update` and read it"
    )
    assert written == expected.read_text(encoding="utf-8")
    assert code == (1 if re.search(r"^error\[", written, re.MULTILINE) else 0)
    if name.startswith("right_"):
        assert code == 0
        assert _VERDICT in written or "nothing is split" in written
    else:
        assert not (code == 1 and _VERDICT in written)


def test_every_expected_file_has_its_plan() -> None:
    assert sorted(path.stem for path in Path(CHECK).glob("*.txt")) == CASES
