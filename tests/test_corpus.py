"""Plans with the mistakes that people make, and word for word what is said about each.

A case is a pair of files in `corpus/findings`: `NAME.plan`, and `NAME.txt` with what `planlang compile NAME.plan`
writes to standard error. The plan may begin with `# flags: ...`, the options of the command. Files that cases extend
lie in `shared`, and are no cases. `pytest tests/test_corpus.py --update` writes the expected files anew.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from planlang.cli.main import run
from planlang.diagnostics.codes import CODES
from tests.cases import CORPUS, flags

FINDINGS = CORPUS / "findings"
CASES = sorted(path.stem for path in FINDINGS.glob("*.plan"))
_TRANSFORMERS = re.compile(r"transformers \d[\w.]*")
_TITLE = re.compile(r"^(error|warning|note)\[(PLN\d{4})\]", re.MULTILINE)


def titles(name: str) -> list[tuple[str, str]]:
    """Severity and code of every finding that is expected of a case."""
    expected = FINDINGS / f"{name}.txt"
    return _TITLE.findall(expected.read_text(encoding="utf-8")) if expected.exists() else []


@pytest.mark.parametrize("name", CASES)
def test_findings(name: str, update: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FINDINGS)
    code = run(["compile", f"{name}.plan", *flags(FINDINGS / f"{name}.plan"), "--color", "never"])
    written = _TRANSFORMERS.sub("transformers VERSION", capsys.readouterr().err)
    expected = FINDINGS / f"{name}.txt"
    if update:
        expected.write_text(written, encoding="utf-8", newline="\n")
    assert expected.exists(), f"{expected.name} is missing: run `pytest tests/test_corpus.py --update` and read it"
    assert written == expected.read_text(encoding="utf-8")
    assert code == _exit_code(written)


def _exit_code(written: str) -> int:
    """0 without errors; 2 where a file or a configuration is at fault, else 1."""
    errors = [number for severity, number in _TITLE.findall(written) if severity == "error"]
    return (2 if any(number.startswith("PLN0") for number in errors) else 1) if errors else 0


def test_every_expected_file_has_its_plan() -> None:
    assert sorted(path.stem for path in FINDINGS.glob("*.txt")) == CASES


def test_no_path_of_this_machine_is_expected() -> None:
    for path in FINDINGS.glob("*.txt"):
        assert not re.search(r"(?<![\w/])/(?:home|root|tmp|work|usr)\b", path.read_text(encoding="utf-8")), path.name


def test_ten_mistakes_are_ten_findings() -> None:
    found = titles("ten_mistakes")
    assert len(found) == 10
    assert len(set(found)) == 10


def test_every_code_of_a_plan_occurs() -> None:
    """All that can be wrong with a plan file has a case here; the other codes have one beside their page."""
    occurring = Counter(number for name in CASES for _, number in titles(name))
    assert {number for number in CODES if number not in ELSEWHERE} - set(occurring) == set()


# Codes that no plan file by itself brings about: options of the command, data files, Python functions, torch.
ELSEWHERE = {
    "PLN0016",
    "PLN8002",
    "PLN8003",
    *("PLN0003", "PLN0006", "PLN0007", "PLN0008", "PLN0009", "PLN0010", "PLN0011", "PLN0012"),
    *("PLN1010", "PLN2016", "PLN6006", "PLN7003", "PLN7004", "PLN7005", "PLN7006", "PLN9001"),
    # what `check` finds: see test_check_corpus.py and the pages
    *(f"PLN40{number:02}" for number in range(3, 17)),
    *("PLN5004", "PLN5005", "PLN6007", "PLN6008", "PLN8001"),
    # what `verify` finds: see the pages
    *("PLN0014", "PLN0015", "PLN4021", "PLN4022", "PLN5007"),
}
