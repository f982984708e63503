"""Prefix blocks from the block ids that rows of a file list, and the share of blocks seen before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from evenstep.request import I8, PrefixBlocks, offsets_of
from evenstep.workload.table import MISSING, Table

_SIZES = (512, 16, 32, 64, 128, 256, 1024)


def flat(lists: Sequence[Any]) -> I8 | None:
    """Join lists of block ids to one int64 array (uint64 ids keep their bits); None unless all are int64, or all uint64."""
    together: list[Any] = list(lists[0]) if len(lists) == 1 else list(chain.from_iterable(lists))
    if not together:
        return np.zeros(0, np.int64)
    try:
        ids = np.array(together)
    except ValueError:  # lists of unequal length among the ids
        return None
    if ids.dtype.kind == "i" and ids.ndim == 1:
        return ids.astype(np.int64, copy=False)
    if set(map(type, together)) != {int} or min(together) < 0 or max(together) >= 2**64:
        return None
    return np.array(together, np.uint64).view(np.int64)


def of_table(table: Table, field: str, prompt: I8, sizes: tuple[int, ...] = _SIZES) -> tuple[PrefixBlocks | None, list[str]]:
    """The prefix blocks of all rows of a table, bad rows too, in scope ``global``; and notes: one if no size fits.

    None without such a column. Rows whose block ids are no list of whole numbers are rejected, and those with ids from 2^63
    on where others are below 0.

    Args:
        field: the column that lists the block ids of each row; a row without it has no blocks.
        prompt: int64[N], prompt tokens of each row.
        sizes: block sizes (tokens) to try. The first with ``ceil(prompt / size)`` ids in every good row that has ids is
            taken, or else the first of all.

    Raises:
        InputError: a rejected row, unless the table skips bad rows.
        Doubt: a rejected row in a table without line numbers.
    """
    if not table.has(field):
        return None, []
    raw = table.column(field)
    lists = [v if isinstance(v, list) else [] for v in raw]
    wrong = np.fromiter((not isinstance(v, list) and v is not None and v is not MISSING for v in raw), np.bool_, len(lists))
    ids = flat(lists)
    rules: tuple[tuple[Callable[[list[Any]], bool], str], ...] = (
        (lambda v: flat([v]) is None, "a list of whole numbers"),
        # each list is fine alone, but ids below 0 in some would have the bits of ids from 2^63 on in others
        (lambda v: max(v, default=0) >= 2**63, "block ids below 2^63, since other rows have ids below 0"),
    )
    for is_wrong, expected in rules:
        if ids is None:
            wrong |= np.fromiter(map(is_wrong, lists), np.bool_, len(lists))
        table.reject(field, wrong, expected)
        if ids is None:  # bad rows are skipped: theirs are left out
            lists = [[] if bad else v for v, bad in zip(lists, wrong, strict=True)]
            ids = flat(lists)
    assert ids is not None
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    offsets = offsets_of(counts)
    listed = (counts > 0) & ~table.bad
    for size in sizes:
        if bool((-(-prompt[listed] // size) == counts[listed]).all()):
            return PrefixBlocks(ids, offsets, size, "global"), []
    note = f"Blocks are taken as {sizes[0]} tokens, which does not fit every prompt."
    return PrefixBlocks(ids, offsets, sizes[0], "global"), [note]


def seen_share(blocks: PrefixBlocks, session: I8) -> float:
    """Share of all prompt blocks that a prefix cache of unlimited size would hit, rows taken in order; nan without blocks.

    A block is a hit if it and all blocks before it in its row are in earlier rows. In scope ``session`` only earlier rows of
    the same session count, and a row without a session (-1 in `session`, int64[N]) has no hits.
    """
    if blocks.ids.size == 0:
        return float("nan")
    small = bool(blocks.ids.min() >= 0) and int(blocks.ids.max()) < 4 * blocks.ids.size + 1000
    ids = blocks.ids if small else np.unique(blocks.ids, return_inverse=True)[1].reshape(-1)
    caches: dict[int, Any] = {}
    hits = 0
    width = int(ids.max()) + 1
    last = {int(key): row for row, key in enumerate(session)}
    for row in range(blocks.offsets.size - 1):
        mine = ids[blocks.offsets[row] : blocks.offsets[row + 1]]
        if mine.size == 0:
            continue
        key = int(session[row]) if blocks.scope == "session" else 0
        if key < 0:
            continue
        cache = caches.get(key)
        if cache is None:
            cache = caches[key] = np.zeros(width, np.bool_)
        known = cache[mine]
        hits += mine.size if bool(known.all()) else int(known.argmin())
        cache[mine] = True
        if blocks.scope == "session" and last[key] == row:
            del caches[key]
    return hits / blocks.ids.size
