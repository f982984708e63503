"""Counters by the names of the exported metrics."""

from __future__ import annotations

from evenstep.dispatch.log.meters import Meters


def test_all_meters_are_plain_numbers():
    found = Meters()
    found.decisions["br-0", "admitted"] += 2
    values = found.values()
    assert values["decisions_total"] == [{"policy": "br-0", "outcome": "admitted", "value": 2}]
    assert values["output_tokens_total"] == 0
