"""KV memory of one rank, counted in blocks: private ones, and full blocks that several sequences share.

Every block is free, held by a sequence, or idle. An idle block is shared but has no holder; it is kept until its room is
needed, and the least recently used goes first. Only held blocks count as used, as in vLLM. Shared blocks are identified by
the model's state at their end (`tokens.blocks_of`); a *chain* lists those of a sequence in order.
"""

from __future__ import annotations

from collections import OrderedDict


class Memory:
    """The KV blocks of one rank, of `block_size` tokens each; with `sharing`, full blocks are cached and shared."""

    def __init__(self, blocks: int, block_size: int, *, sharing: bool = False) -> None:
        self.blocks, self.block_size, self.sharing = blocks, block_size, sharing
        self._free = blocks
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def available(self) -> int:
        """Number of blocks that can be taken: free or idle."""
        return self._free + len(self._idle)

    @property
    def used(self) -> int:
        """Number of blocks that sequences hold."""
        return self.blocks - self.available

    def blocks_for(self, tokens: int) -> int:
        """Number of blocks that this number of tokens needs; the last one may be partly empty."""
        return -(-tokens // self.block_size)

    def take(self, blocks: int) -> bool:
        """Take private blocks, dropping idle ones if needed. Returns False, without taking any, if too few are available."""
        if blocks > self.available:
            return False
        while self._free < blocks:
            self._idle.popitem(last=False)
            self._free += 1
        self._free -= blocks
        return True

    def give(self, blocks: int) -> None:
        """Give back a number of private blocks, which the caller holds; they are then free."""
        self._free += blocks

    def found(self, chain: list[int]) -> int:
        """Number of leading blocks of a chain that are in memory, held or idle; 0 without `sharing`. Changes nothing."""
        for index, block in enumerate(chain):
            if block not in self._holders and block not in self._idle:
                return index
        return len(chain)

    def hold(self, chain: list[int]) -> None:
        """Add a holder to each shared block of a chain, all of which must be in memory; `leave` removes it."""
        for block in chain:
            self._idle.pop(block, None)
            self._holders[block] = self._holders.get(block, 0) + 1

    def publish(self, block: int) -> bool:
        """Turn a private block, which the caller holds, into the shared block `block` with one holder, and return True.

        Returns False without `sharing`, or if the shared block exists already; then the caller's block stays private.
        """
        if not self.sharing or block in self._holders or block in self._idle:
            return False
        self._holders[block] = 1
        return True

    def leave(self, chain: list[int]) -> None:
        """Remove a holder from each shared block of a chain; blocks without holders become idle, the chain's last first."""
        for block in reversed(chain):
            left = self._holders[block] - 1
            if left:
                self._holders[block] = left
            else:
                del self._holders[block]
                self._idle[block] = None

    def clear(self) -> None:
        """Make all blocks free, also held and idle ones, as after a restart."""
        self._free = self.blocks
        self._holders.clear()
        self._idle.clear()
