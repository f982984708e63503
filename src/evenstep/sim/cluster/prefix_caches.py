"""Cached prompt prefixes in a simulated cluster: the tokens shown to policies, and a count of hits.

A prompt counts as cached on a worker from the moment it is sent there. This cluster simulates decoding only. A hit saves no
time here, since prefill happens before a request is visible and its worker known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8, Trace
from evenstep.routing.prefix_index import PrefixIndex


class PrefixCaches:
    """The workers' prefix caches during one run.

    Args:
        trace: requests with `prefix_blocks`; a row without blocks never hits.
        cluster: gives `workers`, and the blocks each keeps, `prefix_cache_blocks`.

    Raises:
        InputError: a trace without prefix blocks.
    """

    def __init__(self, trace: Trace, cluster: Any) -> None:
        blocks = trace.prefix_blocks
        if blocks is None:
            hint = "Leave prefix_cache_blocks out, or take a trace with block ids, e.g. Mooncake's."
            raise InputError(trace.name or "trace", "prefix_blocks", "absent", "block ids of prompts", hint)
        self._index = PrefixIndex(cluster.workers, cluster.prefix_cache_blocks)
        self._workers = cluster.workers
        self._ids, self._offsets = block_keys(trace), blocks.offsets
        self._prompt, self._block_tokens = trace.prompt_tokens, blocks.block_tokens
        self._hit = self._sent = 0
        self._matched: dict[int, tuple[Sequence[int], I8]] = {}  # by row: blocks, blocks held on each worker
        self._changed: set[int] = set()  # workers whose caches changed since then

    def cached(self, rows: I8) -> F8:
        """float64[len(rows), workers], prompt tokens of these requests that each worker has cached; a new read-only array.

        It counts whole blocks from the start of a prompt, the prompt's length at most.
        """
        found = np.zeros((rows.size, self._workers))
        matched: dict[int, tuple[Sequence[int], I8]] = {}
        for place, row in enumerate(rows.tolist()):
            if row in self._matched:
                blocks, depths = self._matched[row]
                for worker in self._changed:
                    depths[worker] = self._index.held(worker, blocks)
            else:
                blocks = self._blocks(row)
                depths = self._index.match(blocks)
            matched[row], found[place] = (blocks, depths), depths
        self._matched = matched
        self._changed.clear()
        found *= self._block_tokens
        np.minimum(found, self._prompt[rows][:, None], out=found)
        found.flags.writeable = False
        return found

    def sent(self, row: int, worker: int) -> None:
        """Record that the request in `row` is sent to a worker: count its cache hits, then cache its prompt there.

        A full cache drops the blocks not used for longest.
        """
        blocks, prompt = self._blocks(row), int(self._prompt[row])
        self._hit += min(prompt, self._index.held(worker, blocks) * self._block_tokens)
        self._sent += prompt
        self._index.add(worker, blocks)
        self._changed.add(worker)

    def lost(self, worker: int) -> None:
        """Empty the cache of a lost worker."""
        self._index.forget(worker)
        self._changed.add(worker)

    def counted(self) -> dict[str, int]:
        """Prompt tokens sent so far, ``prefix_prompt_tokens``, and those their worker had cached, ``prefix_hit_tokens``.

        A request that is sent again counts again.
        """
        return {"prefix_prompt_tokens": self._sent, "prefix_hit_tokens": self._hit}

    def _blocks(self, row: int) -> Sequence[int]:
        """The block keys of the prompt in `row`, first block first."""
        return self._ids[self._offsets[row] : self._offsets[row + 1]].tolist()


def block_keys(trace: Trace) -> I8:
    """int64[total], a key for each of the trace's blocks, row by row as `PrefixBlocks.ids`. The trace must have blocks.

    Equal keys mean that the prompts are equal up to the end of the block. With scope ``session``, keys of different sessions
    differ. A request without a session shares nothing in that scope.
    """
    blocks = trace.prefix_blocks
    assert blocks is not None
    if blocks.scope == "global":
        return _prefix_keys(blocks.ids, blocks.offsets)
    session = trace.column("session")
    owner = np.where(session >= 0, session, -1 - np.arange(len(trace)))
    owners = np.unique(owner, return_inverse=True)[1].reshape(-1)
    ids = np.unique(blocks.ids, return_inverse=True)[1].reshape(-1)
    keys = np.repeat(owners, np.diff(blocks.offsets)) * (int(ids.max(initial=0)) + 1) + ids
    return _prefix_keys(keys, blocks.offsets)


def _prefix_keys(ids: I8, offsets: I8) -> I8:
    """int64[total], keys that stand for a whole prefix: the ids if each always follows the same id, else new numbers."""
    if ids.size == 0:
        return ids
    starts = np.zeros(ids.size, np.bool_)
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    _, first, block = np.unique(ids, return_index=True, return_inverse=True)
    block = block.reshape(-1)
    before = np.where(starts, -1, np.roll(block, 1))
    if bool((before == before[first][block]).all()):
        return ids
    keys: dict[tuple[int, int], int] = {}
    found = np.empty(ids.size, np.int64)
    last = -1
    for place, (number, is_start) in enumerate(zip(block.tolist(), starts.tolist(), strict=True)):
        last = keys.setdefault((-1 if is_start else last, number), len(keys))
        found[place] = last
    return found
