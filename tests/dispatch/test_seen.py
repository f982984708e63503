"""What a replay says that the policy saw is what the recorded decision saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.dispatch.log.file import read_log
from evenstep.dispatch.log.records import Round
from evenstep.dispatch.replay import replay
from evenstep.dispatch.rounds.deciding import Deciding
from evenstep.errors import InputError

LOGS = Path(__file__).parents[1] / "golden" / "logs"
LOG = LOGS / "storm-23.evlog"  # the policy holds the oldest request in some of its rounds
ROUNDS = [record for record in read_log(LOG) if isinstance(record, Round)]


@pytest.fixture
def views(monkeypatch) -> dict[int, tuple[list[int], list[float]]]:
    """Decision -> the requests and the loads in its view, as they were when it was made."""
    found, record = {}, Deciding._record

    def noted(self: Deciding, *given):
        view = self.packed.view(self.call.memory)
        found[self.decisions] = (view.waiting_id.tolist(), view.load.tolist())
        return record(self, *given)

    monkeypatch.setattr(Deciding, "_record", noted)
    return found


@pytest.mark.parametrize("place", range(1, len(ROUNDS), 5))
def test_a_decision_is_shown_as_it_was_made(place, views):
    recorded = ROUNDS[place]
    found = replay(LOG, until=recorded.decision)
    assert found.difference is None and found.decisions == place + 1
    assert found.seen and found.seen.checksum == recorded.seen and found.after
    shown = [one.request for one in found.seen.waiting], [one.load for one in found.seen.workers]
    assert shown == views[recorded.decision]


@pytest.mark.parametrize("until", [-1, len(ROUNDS)])
def test_a_decision_that_the_log_does_not_have_is_an_error(until):
    with pytest.raises(InputError, match=f"--decision is {until}; expected one of the log's decisions, 0 to 115"):
        replay(LOG, until=until)
