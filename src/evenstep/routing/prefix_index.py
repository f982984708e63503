"""Tracks the prompt prefixes each worker holds, as a router knows them: bounded, least recently used evicted first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np

from evenstep.errors import InputError
from evenstep.request import I8


class PrefixIndex:
    """Block ids of the prompts sent to each worker; no clock, no I/O.

    A prompt is a list of ids, one per block, in order; equal ids mean equal content. A worker holds the run of blocks at the
    front of a prompt. Each worker has room for a number of blocks. The least recently used are evicted first, and within one
    prompt the last ones, so that a prefix remains.

    Args:
        workers: G.
        room: blocks a worker holds, >= 1.

    Raises:
        InputError: no workers or no room.
    """

    def __init__(self, workers: int, room: int) -> None:
        for name, value in (("workers", workers), ("room", room)):
            if value < 1:
                raise InputError("prefix index", name, value, "an integer >= 1")
        self.room = [room] * workers  #: blocks each worker has room for; see `limit`
        self._all = (1 << workers) - 1
        self._held: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(workers)]  # oldest use first
        self._holders: dict[int, int] = {}  # block -> bit g set: worker g holds it

    def match(self, blocks: Sequence[int]) -> I8:
        """int64[G], blocks at the front of a prompt that each worker holds."""
        found = np.zeros(len(self._held), np.int64)
        holding = self._all
        for depth, block in enumerate(blocks):
            left = holding & self._holders.get(block, 0)
            if left != holding:
                if depth:
                    found[_bits(holding & ~left)] = depth
                holding = left
                if not left:
                    return found
        found[_bits(holding)] = len(blocks)
        return found

    def held(self, worker: int, blocks: Sequence[int]) -> int:
        """Blocks at the front of a prompt that one worker holds."""
        mine = self._held[worker]
        return next((depth for depth, block in enumerate(blocks) if block not in mine), len(blocks))

    def add(self, worker: int, blocks: Sequence[int]) -> list[int]:
        """A prompt is sent to a worker: its blocks are the ones used last, as many of its front as there is room for.

        Returns:
            Blocks that had to go for it, the one used longest ago first.
        """
        mine, holders, bit = self._held[worker], self._holders, 1 << worker
        for block in reversed(blocks[: self.room[worker]]):
            if block in mine:
                mine.move_to_end(block)
            else:
                mine[block] = None
                holders[block] = holders.get(block, 0) | bit
        return self._make_fit(worker)

    def size(self, worker: int) -> int:
        """Blocks that a worker holds."""
        return len(self._held[worker])

    def limit(self, worker: int, room: int) -> list[int]:
        """A worker has room for so many blocks from now on, 0 or more.

        Returns:
            Blocks that had to go for it, the one used longest ago first.
        """
        self.room[worker] = room
        return self._make_fit(worker)

    def forget(self, worker: int) -> None:
        """A worker was lost, and with it all it held."""
        self._drop(self._held[worker], 1 << worker)
        self._held[worker].clear()

    def check(self) -> None:
        """See that both sides of the index say the same and keep to the room.

        Raises:
            RuntimeError: they do not.
        """
        told = {(block, g) for g, mine in enumerate(self._held) for block in mine}
        known = {(block, g) for block, holders in self._holders.items() for g in _bits(holders)}
        if told != known or any(len(mine) > room for mine, room in zip(self._held, self.room, strict=True)):
            raise RuntimeError("the prefix index is inconsistent")

    def _make_fit(self, worker: int) -> list[int]:
        mine = self._held[worker]
        dropped = [mine.popitem(last=False)[0] for _ in range(len(mine) - self.room[worker])]
        self._drop(dropped, 1 << worker)
        return dropped

    def _drop(self, blocks: Iterable[int], bit: int) -> None:
        holders = self._holders
        for block in blocks:
            left = holders.pop(block) & ~bit
            if left:
                holders[block] = left


def _bits(mask: int) -> list[int]:
    """Positions of the bits set, ascending."""
    found: list[int] = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
