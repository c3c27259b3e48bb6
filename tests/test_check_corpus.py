"""Plans and what `planlang check` says of them.

Cases of `corpus/check` are pairs of files: `NAME.plan`, whose first line holds the options of the command, and
`NAME.txt` with what the command writes, word for word: findings, then the verdict. Cases named `right_...` must have no
error and be proved right.

Cases of `corpus/reports` are what users of tensor parallelism reported, and of `corpus/published` plans that others
published: `tests/cases.py` says what their headers hold. `pytest tests/test_check_corpus.py --update` writes anew what
is expected of all of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases import CORPUS, PROVED, SINGLE, Case, assert_expected, cases, check, flags

CHECK = CORPUS / "check"
NAMES = sorted(path.stem for path in CHECK.glob("*.plan"))
pytestmark = pytest.mark.usefixtures("graph_cache")
HEADED = cases(CORPUS / "reports") + cases(CORPUS / "published")


@pytest.mark.parametrize("name", NAMES)
def test_words(name: str, update: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = CHECK / f"{name}.plan"
    code, written = check(plan, flags(plan), capsys, monkeypatch)
    expected = plan.with_suffix(".txt")
    if update:
        expected.write_text(written, encoding="utf-8", newline="\n")
    assert expected.exists(), (
        f"{expected.name} is missing: run `pytest tests/test_check_corpus.py --update` and read it"
    )
    assert written == expected.read_text(encoding="utf-8")
    assert code == (1 if re.search(r"^error\[", written, re.MULTILINE) else 0)
    if name.startswith("right_"):
        assert code == 0
        assert PROVED in written or SINGLE in written
    else:
        assert not (code == 1 and PROVED in written)


def test_every_expected_file_has_its_plan() -> None:
    assert sorted(path.stem for path in Path(CHECK).glob("*.txt")) == NAMES


@pytest.mark.parametrize("case", HEADED, ids=lambda case: f"{case.path.parent.name}/{case.name}")
def test_codes_and_lines(
    case: Case, update: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_expected(case, capsys, monkeypatch, update=update)
