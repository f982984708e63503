"""Recorded runs and decision logs: what a change of structure may not move.

`pytest tests/golden --update-golden digests` records the runs anew, as a new policy or a result that moved needs it;
`--update-golden logs` the decision logs, as a change of their format needs it. The commit that does so says what moved, and
why.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden import logs
from tests.golden.runs import runs

from evenstep.dispatch.replay import replay

HERE = Path(__file__).parent
DIGESTS = HERE / "digests.json"
RUNS = dict(runs())


@pytest.fixture(scope="session")
def updates(request: pytest.FixtureRequest) -> str | None:
    return request.config.getoption("--update-golden")


def test_every_run_is_recorded(updates):
    if updates == "digests":
        found = {name: make() for name, make in RUNS.items()}
        DIGESTS.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    assert len(RUNS) >= 204
    assert list(json.loads(DIGESTS.read_text())) == list(RUNS), "run pytest tests/golden --update-golden digests"


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_has_its_digest(name):
    assert json.loads(DIGESTS.read_text()).get(name) == RUNS[name](), "see the first lines of this file"


@pytest.mark.parametrize("seed", logs.SEEDS)
def test_a_recorded_log_replays_to_the_bit(seed, updates):
    if updates == "logs":
        logs.record(seed, HERE / "logs")
    found = replay(HERE / "logs" / logs.name_of(seed))
    assert found.difference is None
    assert found.decisions > 5, found
