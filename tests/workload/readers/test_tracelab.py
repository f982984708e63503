from __future__ import annotations

import time

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import tracelab


def test_a_round_arrives_with_its_last_input_and_waits_for_the_round_before(samples):
    trace = tracelab.read(samples / "tracelab.jsonl")
    assert trace.arrival_s.tolist() == [0.0, 1.0, 3.0, 6.0, 7.0, 9.0, 11.0, 12.5, 14.0, 19.0]
    assert trace.session.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert trace.think_s.tolist() == pytest.approx([0, 0, 1.0, 3.0, 1.5, 2.0, 3.0, 0.5, 1.0, 6.0])


@pytest.mark.parametrize(
    "events", ["[]", "null", '[{"event_type": "text"}]', '[{"event_type": "text", "timestamp": "now"}]']
)
def test_a_round_without_times_is_an_error(write, events):
    row = f'{{"session_id": "s", "input_tokens_total": 5, "output_tokens": 2, "timing_events": {events}}}\n'
    with pytest.raises(InputError, match=r"x\.jsonl:1: timing_events"):
        tracelab.read(write("x.jsonl", row))


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be set here")
def test_a_time_without_a_zone_is_utc_on_every_machine(write, monkeypatch):
    row = '{{"session_id": "s", "input_tokens_total": 5, "output_tokens": 2, "timing_events": [{}]}}\n'
    event = '{{"event_type": "user_message", "timestamp": "{}"}}'
    stamps = ["2026-03-29T00:59:00", "2026-03-29T01:01:00Z"]
    path = write("x.jsonl", "".join(row.format(event.format(stamp)) for stamp in stamps))
    monkeypatch.setenv("TZ", "XXX-9")
    time.tzset()
    try:
        assert tracelab.read(path).arrival_s.tolist() == [0.0, 120.0]
    finally:
        monkeypatch.undo()
        time.tzset()
