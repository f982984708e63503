"""KV memory of one rank in blocks: private ones, and prompt blocks that several requests share.

Every block is in one of three states: free, held by a request, or idle (a shared block without a holder, kept until room
is needed; least recently used evicted first). Only held blocks count as used, as in vLLM.
"""

from __future__ import annotations

from collections import OrderedDict


class Memory:
    """Blocks of one rank.

    Args:
        sharing: whether prompt blocks are kept for later requests (prefix caching).
    """

    def __init__(self, blocks: int, block_size: int, *, sharing: bool = False) -> None:
        self.blocks, self.block_size, self.sharing = blocks, block_size, sharing
        self._free = blocks
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def available(self) -> int:
        """Blocks that can be taken: free or idle."""
        return self._free + len(self._idle)

    @property
    def used(self) -> int:
        """Blocks that requests hold."""
        return self.blocks - self.available

    def blocks_for(self, tokens: int) -> int:
        """Blocks that so many tokens need, the last one perhaps not full."""
        return -(-tokens // self.block_size)

    def take(self, blocks: int) -> bool:
        """Take private blocks, giving up idle ones, least recently used first; False, and nothing is taken, if too few."""
        if blocks > self._free:
            if blocks > self.available:
                return False
            while self._free < blocks:
                self._idle.popitem(last=False)
                self._free += 1
        self._free -= blocks
        return True

    def give(self, blocks: int) -> None:
        """Give back private blocks, as many as `blocks`; they are free."""
        self._free += blocks

    def found(self, chain: list[int]) -> int:
        """How many leading blocks of a prompt are in memory, held or idle; 0 without `sharing`."""
        if not self.sharing:
            return 0
        for index, block in enumerate(chain):
            if block not in self._holders and block not in self._idle:
                return index
        return len(chain)

    def hold(self, chain: list[int]) -> None:
        """Add a holder to each of these shared blocks, which must be in memory (`found`); `leave` removes it."""
        for block in chain:
            self._idle.pop(block, None)
            self._holders[block] = self._holders.get(block, 0) + 1

    def publish(self, block: int) -> bool:
        """Make one private block shared, held by its owner; the caller no longer counts it as private.

        Returns:
            False if an equal shared block exists or without `sharing`: the block stays private.
        """
        if not self.sharing or block in self._holders or block in self._idle:
            return False
        self._holders[block] = 1
        return True

    def leave(self, chain: list[int]) -> None:
        """Remove a holder from each of these shared blocks; those without become idle, the chain's last as the oldest."""
        for block in reversed(chain):
            left = self._holders[block] - 1
            if left:
                self._holders[block] = left
            else:
                del self._holders[block]
                self._idle[block] = None

    def clear(self) -> None:
        """Make all blocks free, also held and idle ones, as a restart does."""
        self._free = self.blocks
        self._holders.clear()
        self._idle.clear()
