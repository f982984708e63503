"""Recorded runs and decision logs: what a change of structure may not move.

`pytest tests/golden --update-golden new` records the runs of a new policy, and leaves all others as they are.
`--update-golden digests` records all runs anew, as a result that moved needs it; `--update-golden logs` the decision logs,
as a change of their format needs it. The commit that does so says what moved, and why.
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
RECORDED: dict[str, str] = json.loads(DIGESTS.read_text())


@pytest.fixture(scope="session")
def updates(request: pytest.FixtureRequest) -> str | None:
    return request.config.getoption("--update-golden")


def test_every_run_is_recorded(updates):
    if updates in ("digests", "new"):
        kept = RECORDED if updates == "new" else {}
        found = {name: kept.get(name) or make() for name, make in RUNS.items()}
        DIGESTS.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    assert len(RUNS) >= 204
    recorded = list(json.loads(DIGESTS.read_text()))
    unknown, gone = [n for n in RUNS if n not in recorded], [n for n in recorded if n not in RUNS]
    assert recorded == list(RUNS), (
        f"not recorded: {unknown}; recorded, but no run: {gone}. Run `pytest tests/golden --update-golden new`, and commit"
    )


@pytest.mark.parametrize("name", [name for name in RUNS if name in RECORDED])
def test_a_recorded_run_has_its_digest(name):
    recorded, found = json.loads(DIGESTS.read_text())[name], RUNS[name]()
    assert recorded == found, "another result than recorded. If it should move: pytest tests/golden --update-golden digests"


@pytest.mark.parametrize("seed", logs.SEEDS)
def test_a_recorded_log_replays_to_the_bit(seed, updates):
    if updates == "logs":
        logs.record(seed, HERE / "logs")
    found = replay(HERE / "logs" / logs.name_of(seed))
    assert found.difference is None
    assert found.decisions > 5, found
