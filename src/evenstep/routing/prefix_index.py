"""Which prompt prefixes each worker holds, as far as a router can know: bounded, oldest use out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from evenstep.errors import InputError
from evenstep.request import I8


class PrefixIndex:
    """Block ids of the prompts sent to each worker; no clock, no I/O.

    A prompt is a list of ids, one a block, in order; equal ids mean equal content. What a worker holds of a prompt is
    the run of blocks at its front. Each worker has room for a number of blocks; those used longest ago go first, and of
    one prompt the hindmost, so that what is left of it is a prefix.

    Args:
        workers: G.
        room: blocks a worker holds, >= 1.

    Raises:
        InputError: no worker or no room.
    """

    def __init__(self, workers: int, room: int) -> None:
        for name, value in (("workers", workers), ("room", room)):
            if value < 1:
                raise InputError("prefix index", name, value, "an integer >= 1")
        self._room = room
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
        mine, bit = self._held[worker], 1 << worker
        for block in reversed(blocks[: self._room]):
            if block in mine:
                mine.move_to_end(block)
            else:
                mine[block] = None
                self._holders[block] = self._holders.get(block, 0) | bit
        dropped = [mine.popitem(last=False)[0] for _ in range(len(mine) - self._room)]
        for block in dropped:
            self._drop(block, bit)
        return dropped

    def forget(self, worker: int) -> None:
        """A worker was lost, and with it all it held."""
        for block in self._held[worker]:
            self._drop(block, 1 << worker)
        self._held[worker].clear()

    def check(self) -> None:
        """See that both sides of the index say the same and keep to the room.

        Raises:
            RuntimeError: they do not.
        """
        told = {(block, g) for g, mine in enumerate(self._held) for block in mine}
        known = {(block, g) for block, holders in self._holders.items() for g in _bits(holders)}
        if told != known or any(len(mine) > self._room for mine in self._held):
            raise RuntimeError("the prefix index is inconsistent")

    def _drop(self, block: int, bit: int) -> None:
        left = self._holders[block] & ~bit
        if left:
            self._holders[block] = left
        else:
            del self._holders[block]


def _bits(mask: int) -> list[int]:
    """Positions of the bits set, ascending."""
    found: list[int] = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
