"""Plans that others published, checked and run on small models: the checker and the ranks themselves must agree."""

from __future__ import annotations

import pytest
import torch

from tests.cases import CORPUS, Case, cases
from tests.twin_runs import trial

PUBLISHED = cases(CORPUS / "published")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case.name)
@pytest.mark.usefixtures("graph_cache")
def test_checker_and_ranks_agree(case: Case) -> None:
    options = dict(zip(case.flags[::2], case.flags[1::2], strict=True))
    named = options["--model"]
    model = CORPUS / "published" / named if named.endswith(".json") else named
    found = trial(case.path, str(model), case.one("twin"), options.get("--as"))
    assert found.proved == found.right, found.outcomes
    assert found.proved == (case.one("verdict") == "right" and case.one("expect") == "none")
    if all(outcome.verdict in ("right", "gradient") for outcome in found.outcomes):
        assert found.foretold_gradients == found.wrong_gradients
