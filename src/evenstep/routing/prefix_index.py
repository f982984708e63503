"""Tracks which blocks of prompts each worker's prefix cache holds, by the prompts sent there, with LRU eviction."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from evenstep.errors import check_range
from evenstep.request import I8


class Run:
    """The blocks of one prompt that a worker holds and no later prompt shares: `start` to `end` - 1, counted from the front.

    Blocks before `start` are shared with prompts added later, and counted there; those from `end` on were evicted. A new run
    has all blocks. `blocks` are the ids of the recorded blocks of the prompt, not copied.
    """

    __slots__ = ("blocks", "end", "start")

    def __init__(self, blocks: Sequence[int]) -> None:
        self.blocks, self.start, self.end = blocks, 0, len(blocks)


class PrefixIndex:
    """The block ids that each worker holds, by the prompts sent to it; no clock, no I/O.

    A prompt is a list of ids, one a block, in order. An id stands for all of the prompt up to the end of its block. A worker
    holds the front blocks of a prompt, up to its room. The blocks of the prompt added longest ago are evicted first, and of
    one prompt the last blocks first, so that a prefix remains. If two prompts share their first blocks, these count as used
    when the later one was added. Only `add` counts as a use; looking up does not.

    Args:
        workers: G.
        room: blocks each worker holds at most, >= 1; `limit` changes it for one worker.

    Raises:
        InputError: `workers` or `room` is below 1.
    """

    def __init__(self, workers: int, room: int) -> None:
        check_range("prefix index", "an integer >= 1", low=1, workers=workers, room=room)
        self.room = [room] * workers  #: blocks each worker has room for; see `limit`
        self._all = (1 << workers) - 1
        self._holders: dict[int, int] = {}  # block -> bit g set: worker g holds it
        self._runs: list[dict[int, Run]] = [{} for _ in range(workers)]  # by first block
        self._used: list[deque[Run]] = [deque() for _ in range(workers)]  # oldest use first; empty ones are skipped
        self._size = [0] * workers

    def depths(self, blocks: Sequence[int]) -> list[tuple[int, int]]:
        """Group workers by how many leading blocks of a prompt they hold: pairs ``(number, workers)``, by ascending number.

        `workers` is a mask of the workers that hold exactly so many: bit g is set for worker g (see `bits`). Workers that
        hold no block are left out. An empty prompt gives one pair: 0, and all workers.
        """
        found: list[tuple[int, int]] = []
        holders, holding = self._holders, self._all
        for depth, block in enumerate(blocks):
            left = holding & holders.get(block, 0)
            if left != holding:
                if depth:
                    found.append((depth, holding & ~left))
                holding = left
                if not left:
                    return found
        found.append((len(blocks), holding))
        return found

    def match(self, blocks: Sequence[int]) -> I8:
        """Number of leading blocks of a prompt that each worker holds, int64[G]; 0 if it lacks the first."""
        found = np.zeros(len(self._runs), np.int64)
        for depth, workers in self.depths(blocks):
            found[bits(workers)] = depth
        return found

    def held(self, worker: int, blocks: Sequence[int]) -> int:
        """Number of leading blocks of a prompt that one worker holds, up to the first that it lacks."""
        bit, holders = 1 << worker, self._holders
        return next((depth for depth, block in enumerate(blocks) if not holders.get(block, 0) & bit), len(blocks))

    def add(self, worker: int, blocks: Sequence[int]) -> list[int]:
        """Record a prompt sent to a worker: its front blocks, as many as the worker has room for, are now the latest used.

        Returns the ids of the blocks evicted to make room, in order: the oldest prompt first, of each prompt the last block
        first.
        """
        kept = blocks[: self.room[worker]]
        if not kept:
            return []
        runs, used, holders, bit = self._runs[worker], self._used[worker], self._holders, 1 << worker
        known = self._take_front(runs, kept)
        run = runs[kept[0]] = Run(kept)
        used.append(run)
        new = kept[known:] if known else kept
        if not known and holders.keys().isdisjoint(new):
            holders.update(dict.fromkeys(new, bit))
        else:
            for block in new:
                holders[block] = holders.get(block, 0) | bit
        self._size[worker] += len(new)
        if len(used) > 2 * len(runs) + 64:
            self._used[worker] = deque(run for run in used if run.start < run.end)
        return self._make_fit(worker)

    def size(self, worker: int) -> int:
        """Number of blocks that a worker holds."""
        return self._size[worker]

    def limit(self, worker: int, room: int) -> list[int]:
        """Set the number of blocks that a worker has room for, >= 0, and evict what exceeds it.

        Returns the ids of the evicted blocks, in the order of `add`.
        """
        self.room[worker] = room
        return self._make_fit(worker)

    def forget(self, worker: int) -> None:
        """Drop all blocks of a worker whose cache was lost. Its room stays, and later prompts can be added."""
        for run in self._used[worker]:
            self._drop(run.blocks[run.start : run.end], 1 << worker)
        self._runs[worker], self._used[worker], self._size[worker] = {}, deque(), 0

    def check(self) -> None:
        """Raise a `RuntimeError` if the index is inconsistent, or a worker holds more blocks than it has room for."""
        runs = [[run.blocks[run.start : run.end] for run in of.values()] for of in self._runs]
        told = {(block, g) for g, mine in enumerate(runs) for blocks in mine for block in blocks}
        known = {(block, g) for block, holders in self._holders.items() for g in bits(holders)}
        sizes = [sum(map(len, mine)) for mine in runs]
        is_over = any(size > room for size, room in zip(sizes, self.room, strict=True))
        if told != known or len(told) != sum(sizes) or sizes != self._size or is_over:
            raise RuntimeError("the prefix index is inconsistent")

    def _take_front(self, runs: dict[int, Run], blocks: Sequence[int]) -> int:
        """Take the front blocks of a prompt away from a worker's older runs that hold them; returns the number taken.

        `runs` maps first blocks to the worker's runs, and is updated. A run keeps the blocks after those taken.
        """
        at = 0
        while at < len(blocks) and (run := runs.get(blocks[at])) is not None and run.start == at:
            end = min(run.end, len(blocks))
            upto = end if run.blocks[at:end] == blocks[at:end] else at + 1
            while upto < end and run.blocks[upto] == blocks[upto]:
                upto += 1
            del runs[blocks[at]]
            run.start = at = upto
            if upto < run.end:
                runs[run.blocks[upto]] = run
        return at

    def _make_fit(self, worker: int) -> list[int]:
        """Evict a worker's blocks beyond its room, the last blocks of the oldest runs first; returns their ids in order."""
        over = self._size[worker] - self.room[worker]
        if over <= 0:
            return []
        dropped: list[int] = []
        runs, used = self._runs[worker], self._used[worker]
        self._size[worker] -= over
        while over > 0:
            run = used[0]
            keeps = max(run.start, run.end - over)
            over -= run.end - keeps
            dropped += reversed(run.blocks[keeps : run.end])
            if keeps == run.start:
                used.popleft()
                if run.start < run.end and runs.get(run.blocks[run.start]) is run:
                    del runs[run.blocks[run.start]]
            run.end = keeps
        self._drop(dropped, 1 << worker)
        return dropped

    def _drop(self, blocks: Iterable[int], bit: int) -> None:
        """Remove one worker from the holders of blocks; `bit` is 1 << worker."""
        holders = self._holders
        for block in blocks:
            left = holders.pop(block, 0) & ~bit
            if left:
                holders[block] = left


def bits(mask: int) -> list[int]:
    """Positions of the bits set in a mask, counted from 0 at the lowest bit, ascending; empty for 0."""
    found: list[int] = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
