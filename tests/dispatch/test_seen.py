"""What a replay says that the policy saw is what the recorded decision saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenstep.dispatch.log.file import read_log
from evenstep.dispatch.log.records import Round
from evenstep.dispatch.replay import replay

LOG = Path(__file__).parents[1] / "golden" / "logs" / "storm-01.evlog"
ROUNDS = [record for record in read_log(LOG) if isinstance(record, Round)]


@pytest.mark.parametrize("place", range(0, len(ROUNDS), 5))
def test_a_decision_is_shown_as_it_was_recorded(place):
    recorded = ROUNDS[place]
    found = replay(LOG, until=recorded.decision)
    assert found.difference is None and found.decisions == place + 1
    if found.seen is not None:  # else another decision followed before the next record
        assert found.seen.checksum == recorded.seen and found.after
        assert len(found.seen.waiting) == recorded.waiting
        assert set(recorded.sent) <= {one.request for one in found.seen.waiting}


def test_most_decisions_can_be_shown():
    shown = [replay(LOG, until=one.decision).seen is not None for one in ROUNDS[::5]]
    assert sum(shown) > 0.8 * len(shown)
