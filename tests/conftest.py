"""What all tests share: the option that rewrites expected files."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the expected files of the corpus")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be rewritten rather than compared with."""
    return bool(request.config.getoption("--update"))
