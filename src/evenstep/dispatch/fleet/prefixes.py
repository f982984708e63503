"""Tracks prompt prefixes the dispatcher sent: the blocks each worker can have cached, for policies that use them.

The number of blocks of a waiting prompt on each worker is looked up once, and updated when blocks are sent or evicted. So a
round need not walk through the prompts of the pool. A block's id covers all text up to its end: two prompts with a common id
share all text before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.compiled import F2, I1, I2, INT, declared
from evenstep.dispatch.columns import Restored, numbers
from evenstep.dispatch.fleet.prefix_belief import Belief
from evenstep.engines.requests.prompt_blocks import span
from evenstep.request import F8, I8
from evenstep.routing.prefix_index import PrefixIndex, bits

_NOTHING: F8 = np.zeros((0, 0))


@declared(None if INT is None else INT(I2, I1, I1, I1, F2))
def cached_tokens(depth: I8, count: I8, rows: I8, prompts: I8, found: F8) -> int:
    """Write how many prompt tokens of each request each worker is believed to have cached; returns 0 if no blocks are known.

    Args:
        depth: int64[R, G], leading blocks of each row's prompt that each worker holds.
        count: int64[R], blocks of each row's prompt, 0 = not known.
        rows: int64[W], rows of the requests.
        prompts: int64[R], tokens of each row's prompt.
        found: float64[W, G], written; 0 for a request whose blocks are not known. If any are known, 1 is returned.
    """
    is_known = 0
    for i in range(rows.size):
        row = rows[i]
        blocks = int(count[row]) if row < count.size else 0
        if blocks == 0:
            for g in range(found.shape[1]):
                found[i, g] = 0.0
            continue
        is_known = 1
        block_tokens = prompts[row] / span(blocks)
        for g in range(found.shape[1]):
            found[i, g] = span(int(depth[row, g])) * block_tokens
    return is_known


_cached_tokens, _span = compiled.entry(cached_tokens), compiled.as_plain(span)


class Prefixes(Restored):
    """Prompt blocks of requests, by row, and an index of the blocks sent to each worker, at most `room` for each.

    `sent_tokens` and `hit_tokens` are prompt tokens of all requests sent so far, and of these the tokens believed cached.
    """

    made_anew = ("_depth_at", "_count_at")

    def __init__(self, room: int) -> None:
        self._room = room
        self._blocks: dict[int, tuple[int, ...]] = {}  # row -> blocks
        self._new: set[int] = set()  # rows not looked up yet
        self._ends: dict[int, set[int]] = {}  # block -> rows looked up whose cached front may end with it, on some worker
        self._ends_of: dict[int, set[int]] = {}  # row -> these blocks of it
        self._have(np.zeros((0, 0), np.int64), np.zeros(0, np.int64))
        self._space: F8 = np.zeros(0)
        self.sent_tokens, self.hit_tokens = 0, 0
        self.is_read = False  # whether rounds read it; then a request is looked up on arrival, not in a round
        self.workers = 0
        self._beliefs: dict[str, Belief] = {}  # worker -> how its counters correct it
        self._places: list[Belief] = []  # of each worker now
        self._index: Any = None  # a `PrefixIndex`; None while there is no worker

    def _have(self, depth: I8, count: I8) -> None:
        """Replace the counts of held blocks: int64[R, G] `depth` and int64[R] `count`, as in `cached_tokens`."""
        self._depth, self._count = depth, count
        self._make_anew()

    def _make_anew(self) -> None:
        self._depth_at, self._count_at = numbers(self._depth.reshape(-1)), numbers(self._count)

    @property
    def has_any(self) -> bool:
        """Whether the prompt blocks of any request in the dispatcher, waiting or sent, are known."""
        return bool(self._blocks)

    def resize(self, names: Sequence[str]) -> None:
        """Forget which blocks workers hold, as places changed; `names`: workers by place. Estimated sizes stay, by name."""
        self.workers = len(names)
        self._index = PrefixIndex(self.workers, self._room) if names else None
        self._have(np.zeros((self._count.size, self.workers), np.int64), self._count)
        self._beliefs = {name: self._beliefs.get(name) or Belief(self._room) for name in names}
        self._places = list(self._beliefs.values())
        for worker, belief in enumerate(self._places):
            belief.begin()
            self._index.limit(worker, belief.room)

    def limit(self, room: int) -> None:
        """Assume at most `room` blocks on each worker. Another number than before drops all held blocks and beliefs."""
        if room != self._room:
            names, self._room, self._beliefs = list(self._beliefs), room, {}
            self.resize(names)

    def add(self, row: int, blocks: tuple[int, ...]) -> None:
        """Keep an arriving request's prompt blocks (`Arrived.blocks`), and follow how many of them each worker holds."""
        if blocks:
            self._blocks[row] = blocks
            if row >= len(self._count_at):
                room = max(1024, 2 * self._count.size, row + 1)
                depth, count = np.zeros((room, self.workers), np.int64), np.zeros(room, np.int64)
                depth[: len(self._depth)], count[: self._count.size] = self._depth, self._count
                self._have(depth, count)
            self.waits_again(row)

    def waits_again(self, row: int) -> None:
        """Track the prompt blocks of a request again, because it is back in the queue; nothing if they are not known."""
        if row in self._blocks:
            if self.is_read:
                self._look_up(row)
            else:
                self._new.add(row)

    def forget(self, row: int) -> None:
        """Drop the blocks of the request in this row, which is over; a row without blocks is ignored."""
        blocks = self._blocks.pop(row, None)
        if blocks is not None and (self._count_at[row] or row in self._new):
            self._let_go(row)

    def lost(self, worker: int) -> None:
        """Forget the blocks that the worker in this place holds, because it was ejected and may have restarted."""
        self._index.forget(worker)
        self._depth[:, worker] = 0
        self._places[worker].begin()

    def sampled(self, worker: int, queried: int, hit: int) -> None:
        """Correct a worker's assumed cache size by its own counters (`Belief.told`); blocks beyond it go, oldest first.

        `queried`, `hit`: prompt tokens it looked up in its cache, and found there, since it started; -1 = not reported.
        """
        belief = self._places[worker]
        if belief.told(queried, hit, self._index.size(worker)):
            self._went(worker, self._index.limit(worker, belief.room))

    def belief(self, worker: int) -> Belief:
        """The estimate of the cache size of the worker in this place."""
        return self._places[worker]

    def sent(self, row: int, worker: int, prompt: int) -> None:
        """Count a request of `prompt` tokens sent to the worker in this place, which then counts as holding its blocks.

        Its row is not followed any more; other waiting requests with the same leading blocks are updated.
        """
        self.sent_tokens += prompt
        blocks = self._blocks.get(row)
        if blocks is None:
            self._places[worker].sent(prompt, 0)
            return
        held = self._depth_at[row * self.workers + worker] if self._count_at[row] else self._index.held(worker, blocks)
        self._let_go(row)
        hit = prompt * _span(held) // _span(len(blocks)) if held else 0
        self.hit_tokens += hit
        self._places[worker].sent(prompt, hit)
        dropped = self._index.add(worker, blocks)
        if not self._ends:
            return
        kept = min(len(blocks), self._index.room[worker])
        if held < kept:
            for other in self._ends.get(blocks[held], ()):
                self._reaches(other, worker, min(kept, _alike(blocks, self._blocks[other])))
        self._went(worker, dropped)

    def cached(self, rows: I8, prompts: I8) -> F8:
        """float64[W, G], prompt tokens of each waiting request that each worker is believed to have cached.

        Its shape is [0, 0] if the blocks of no request in `rows` are known. The next call overwrites it.

        Args:
            rows: int64[W], rows of the requests.
            prompts: int64[R], tokens of each row's prompt.
        """
        if self._index is None or not self._blocks:
            return _NOTHING
        if self._new:
            for row in rows.tolist():
                if row in self._new:
                    self._new.remove(row)
                    self._look_up(row)
        size = rows.size * self.workers
        if self._space.size < size:
            self._space = np.zeros(2 * size)
        found = self._space[:size].reshape(rows.size, self.workers)
        return found if _cached_tokens(self._depth, self._count, rows, prompts, found) else _NOTHING

    def check(self, alive: set[int], waiting: set[int]) -> None:
        """Raise a RuntimeError if an ended request is kept, or a cached count differs from a fresh look-up.

        `alive` are the rows in use, `waiting` those of requests without a worker.
        """
        left = (self._blocks.keys() | self._new) - alive
        if left:
            raise RuntimeError(f"prefixes of ended requests are kept: {sorted(left)[:3]}")
        asked = {row for row in self._blocks if self._count[row]}
        if asked | self._new != self._blocks.keys() & waiting:
            raise RuntimeError("prefixes are kept up for others than those that wait")
        if self._ends_of.keys() != asked or {row for rows in self._ends.values() for row in rows} != asked:
            wrong = sorted(self._ends_of.keys() ^ asked)[:3]
            raise RuntimeError(f"prefixes of rows {wrong} are kept for no row, or not at all")
        if self._index is not None:
            self._index.check()
            for row in asked:
                if self._depth[row].tolist() != self._index.match(self._blocks[row]).tolist():
                    raise RuntimeError(f"what workers hold of row {row} is out of date")

    def _went(self, worker: int, dropped: list[int]) -> None:
        """Lower the held counts of waiting prompts whose last held block the worker in this place has dropped."""
        if self._ends.keys().isdisjoint(dropped):
            return
        for block in dropped:
            for other in self._ends.get(block, ()):
                depth = self._depth_at[other * self.workers + worker]
                if depth and self._blocks[other][depth - 1] == block:
                    self._reaches(other, worker, depth - 1)

    def _look_up(self, row: int) -> None:
        """Find how many leading blocks of the request's prompt each worker holds, and follow that from now on."""
        blocks = self._blocks[row]
        self._count_at[row], self._ends_of[row], self._depth[row] = len(blocks), {blocks[0]}, 0
        self._ends.setdefault(blocks[0], set()).add(row)
        if self._index is not None:
            for depth, workers in self._index.depths(blocks):
                self._depth[row, bits(workers)] = depth
                self._end(row, depth)

    def _reaches(self, row: int, worker: int, depth: int) -> None:
        """Set how many leading blocks of the request's prompt the worker in this place holds."""
        self._depth_at[row * self.workers + worker] = depth
        self._end(row, depth)

    def _end(self, row: int, depth: int) -> None:
        """Register a prompt under its block number `depth`, the last that some worker holds, and under the next block.

        The count of held blocks changes if the former is evicted, or if the latter is sent.
        """
        ends = self._ends_of[row]
        for block in self._blocks[row][max(0, depth - 1) : depth + 1]:
            if block not in ends:
                ends.add(block)
                self._ends.setdefault(block, set()).add(row)

    def _let_go(self, row: int) -> None:
        """Stop following how many blocks of the request's prompt workers hold."""
        self._new.discard(row)
        self._count_at[row] = 0
        for block in self._ends_of.pop(row, ()):
            rows = self._ends[block]
            rows.discard(row)
            if not rows:
                del self._ends[block]


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many leading blocks two prompts share. Block ids cover all text before them, so after a difference all differ."""
    return bisect_left(range(min(len(one), len(other))), True, key=lambda place: one[place] != other[place])
