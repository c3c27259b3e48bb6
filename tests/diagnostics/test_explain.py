"""Finding the page of a code, in a folder of our own so that no wording is fixed here."""

import pytest

from planlang.diagnostics import codes, explain


@pytest.fixture
def docs(tmp_path, monkeypatch):
    monkeypatch.setattr(explain, "DOCS", tmp_path)
    (tmp_path / "PLN3001.md").write_text("# unmatched-rule\n层\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("no code\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("code", ["PLN3001", "pln3001", " 3001 ", "unmatched-rule", "Unmatched-Rule"])
def test_page_by_number_and_name(docs, code):
    assert explain.page(code) == "# unmatched-rule\n层\n"


@pytest.mark.parametrize("code", ["", "PLN", "PLN3002", "3", "PLN9999", "README", "../docs/PLN3001", "unmatched"])
def test_no_page(docs, code):
    assert explain.page(code) is None


def test_a_code_is_found_without_its_page(docs):
    assert explain.find("overlapping-rules") is codes.OVERLAPPING_RULES
    assert explain.find("nothing") is None


def test_known(docs):
    (docs / "PLN0001.md").write_text("", encoding="utf-8")
    assert explain.known() == (codes.UNREADABLE_FILE, codes.UNMATCHED_RULE)
