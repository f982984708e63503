from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measure.small_cluster import small_run

from evenstep.measure.digest import StreamingDigest, combined, digest, digest_of


def test_the_digest_is_sha256_over_little_endian_rows_and_the_final_clock():
    run = small_run([3, 5], [4, 1])
    rows = struct.pack("<8q", 0, 0, 0, 3, 1, 0, 0, 0)
    assert run.digest == hashlib.sha256(rows + struct.pack("<d", 27.0)).hexdigest()
    assert digest_of(run.requests, 27.0) == run.digest


def test_the_digest_of_no_requests_is_that_of_the_clock():
    none = np.zeros(0, np.int64)
    assert digest(none, none, none, none, 0.0) == hashlib.sha256(bytes(8)).hexdigest()
    assert StreamingDigest().finish(0.0) == hashlib.sha256(bytes(8)).hexdigest()


def test_every_part_of_a_row_and_the_clock_changes_the_digest():
    columns = [np.arange(3), np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([4, 5, 6])]
    seen = {digest(*columns, 1.0), digest(*columns, np.nextafter(1.0, 2.0))}
    for i in range(4):
        changed = [c.copy() for c in columns]
        changed[i][-1] += 7
        seen.add(digest(*changed, 1.0))
    assert len(seen) == 6


@given(st.permutations(range(40)), st.integers(1, 11), st.booleans(), st.integers(1, 3000))
def test_streaming_equals_one_shot_whatever_the_order_and_the_chunks(order, chunk, holes, stretch):
    ids = np.array(order, np.int64) * (stretch if holes else 1)  # ids that never come are skipped
    worker, start, end = ids % 3, ids * 2, ids * 2 + 5
    stream = StreamingDigest()
    for i in range(0, ids.size, chunk):
        stream.add(*(c[i : i + chunk] for c in (ids, worker, start, end)))
    assert stream.finish(2.5) == digest(ids, worker, start, end, 2.5)


def test_streaming_holds_only_the_window_of_missing_ids():
    stream = StreamingDigest()
    most = 0
    for block in range(200):
        ids = np.arange(block * 100, block * 100 + 100)[::-1].copy()
        stream.add(ids, ids, ids, ids)
        most = max(most, stream._held)
    assert most == 0
    later = np.arange(20_001, 20_050)
    stream.add(later, later, later, later)
    assert stream._held == 49


@pytest.mark.parametrize("again", [[0], [7], [8, 8]])
def test_a_request_that_completes_twice_is_refused(again):
    stream = StreamingDigest()
    for ids in (np.array([0, 1, 7]), np.array(again)):
        last = ids
        if again != [8, 8] and ids.tolist() == again:
            with pytest.raises(ValueError, match="completed twice"):
                stream.add(ids, ids, ids, ids)
            return
        stream.add(ids, ids, ids, ids)
    assert last.tolist() == [8, 8]
    with pytest.raises(ValueError, match="completed twice"):
        stream.finish(1.0)


def test_one_run_keeps_its_digest_and_several_are_combined_in_order():
    assert combined(("ab",)) == "ab"
    assert combined(("ab", "cd")) == hashlib.sha256(b"abcd").hexdigest() != combined(("cd", "ab"))
