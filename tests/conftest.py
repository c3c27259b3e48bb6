"""What all tests share: the option that rewrites expected files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a job in the background, as of all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the expected files of the corpus")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be rewritten rather than compared with."""
    return bool(request.config.getoption("--update"))


@pytest.fixture(autouse=True, scope="module")
def process_group() -> Iterator[None]:
    """Leaves no process group behind: a simulation keeps its own for the next one, and other tests make theirs."""
    yield
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture(scope="session")
def graph_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the graphs of models that the catalog lacks for the time of the tests, and no longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANLANG_CACHE_DIR", str(tmp_path_factory.mktemp("graphs")))
        yield
