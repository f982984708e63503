"""What a log holds."""

from __future__ import annotations

import msgspec

from evenstep.dispatch.log.records import Chunks, Done, Header, Record, Round
from evenstep.dispatch.settings import LoggedSettings


def test_every_record_survives_both_encodings():
    for record in (
        Header(policy="jsq", settings=LoggedSettings(ttl_s=3.0)),
        Chunks([1, 2], [1, 3], [(0, 1.5)]),
        Done(1, 2, 3),
        Round(decision=1, waiting=2, seen=3, sent={4: "a"}, fallback="stale"),
    ):
        for room in (msgspec.json, msgspec.msgpack):
            assert room.decode(room.encode(record), type=Record) == record
