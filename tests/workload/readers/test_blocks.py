from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import traces

from evenstep.errors import InputError
from evenstep.request import PrefixBlocks
from evenstep.workload.readers import blocks
from evenstep.workload.table import MISSING, Table


def listed(lists: list[object], *, skip: bool = False) -> Table:
    return Table("f.jsonl", {"ids": lists}, np.arange(1, len(lists) + 1), len(lists), skip=skip)


def test_unsigned_ids_keep_their_bits():
    ids = blocks.flat([[2**64 - 1], [1]])
    assert ids is not None
    assert ids.view(np.uint64).tolist() == [2**64 - 1, 1]


def test_the_block_size_is_the_one_that_fits_every_prompt():
    found, note = blocks.of_table(listed([[1, 2], [1]]), "ids", np.array([40, 32]))
    assert (found.block_tokens, note) == (32, [])
    _, [note] = blocks.of_table(listed([[1, 2, 3]]), "ids", np.array([5]))
    assert "does not fit" in note


@pytest.mark.parametrize("bad", [[1.5], ["x"], 7, [[1], 2], [[1]], [True, None], [-1, 2**63]])
def test_a_list_that_is_no_list_of_whole_numbers_is_named_or_skipped(bad):
    with pytest.raises(InputError, match=r"f\.jsonl:2: ids"):
        blocks.of_table(listed([[1], bad]), "ids", np.array([10, 10]))
    table = listed([[1], bad, MISSING], skip=True)
    found, _ = blocks.of_table(table, "ids", np.array([10, 10, 10]))
    assert (found.offsets.tolist(), table.good.tolist()) == ([0, 1, 1, 1], [0, 2])


def test_ids_below_0_and_beyond_63_bits_in_one_file_are_named_or_skipped():
    mixed: list[object] = [[-1], [2**63], [2]]
    with pytest.raises(InputError, match=r"f\.jsonl:2: ids is .* below 0"):
        blocks.of_table(listed(mixed), "ids", np.array([10, 10, 10]))
    table = listed(mixed, skip=True)
    found, _ = blocks.of_table(table, "ids", np.array([10, 10, 10]))
    assert (found.ids.tolist(), found.offsets.tolist(), table.good.tolist()) == ([-1, 2], [0, 1, 1, 2], [0, 2])


def plain_share(prefix: PrefixBlocks, session: np.ndarray) -> float:
    seen: dict[int, set[int]] = {}
    hits = total = 0
    for row in range(prefix.offsets.size - 1):
        mine = prefix.row(row).tolist()
        total += len(mine)
        key = int(session[row]) if prefix.scope == "session" else 0
        if key < 0:
            continue
        cache = seen.setdefault(key, set())
        hits += next((i for i, block in enumerate(mine) if block not in cache), len(mine))
        cache.update(mine)
    return hits / total if total else math.nan


@given(traces(blocks=True))
def test_the_share_of_seen_prefixes_equals_the_plain_count(trace):
    session = trace.column("session")
    expected = plain_share(trace.prefix_blocks, session)
    assert blocks.seen_share(trace.prefix_blocks, session) == pytest.approx(expected, nan_ok=True)
