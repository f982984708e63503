"""Prompt prefixes as far as the dispatcher sent them: what each worker can have cached, for policies that look at it."""

from __future__ import annotations

import numpy as np

from evenstep.request import F8, I8
from evenstep.routing.prefix_index import PrefixIndex


class Prefixes:
    """Blocks of the waiting requests' prompts, and a bounded index of what was sent where.

    Args:
        room: blocks a worker is taken to hold.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._blocks: dict[int, tuple[int, ...]] = {}  # request -> blocks
        self._matched: dict[int, I8] = {}  # request -> blocks held on each worker
        self._changed: set[int] = set()
        self.sent_tokens, self.hit_tokens = 0, 0
        self.workers = 0
        self._index: PrefixIndex | None = None

    def resize(self, workers: int) -> None:
        """The fleet changed: workers have other numbers now, so everything is forgotten."""
        self.workers = workers
        self._index = PrefixIndex(workers, self._room) if workers else None
        self._matched.clear()
        self._changed.clear()

    def add(self, request: int, blocks: tuple[int, ...]) -> None:
        if blocks:
            self._blocks[request] = blocks

    def forget(self, request: int) -> None:
        self._blocks.pop(request, None)
        self._matched.pop(request, None)

    def lost(self, worker: int) -> None:
        """The worker restarted: it holds nothing."""
        if self._index is not None:
            self._index.forget(worker)
            self._changed.add(worker)

    def sent(self, request: int, worker: int, prompt: int) -> None:
        """A request goes to a worker, which has its prompt cached from now on."""
        self.sent_tokens += prompt
        blocks = self._blocks.get(request)
        if blocks and self._index is not None:
            self.hit_tokens += prompt * self._index.held(worker, blocks) // len(blocks)
            self._index.add(worker, blocks)
            self._changed.add(worker)
            self._matched.pop(request, None)

    def cached(self, requests: I8, prompts: I8) -> F8:
        """float64[W, G], prompt tokens of each waiting request that each worker has cached; [0, 0] where no blocks are
        known."""
        index = self._index
        if index is None or not any(request in self._blocks for request in requests.tolist()):
            return np.zeros((0, 0))
        found = np.zeros((requests.size, self.workers))
        for depths, blocks in ((self._matched[r], self._blocks[r]) for r in self._matched):
            for worker in self._changed:
                depths[worker] = index.held(worker, blocks)
        self._changed.clear()
        for place, request in enumerate(requests.tolist()):
            blocks = self._blocks.get(request)
            if blocks:
                depths = self._matched.get(request)
                if depths is None:
                    depths = self._matched[request] = index.match(blocks)
                found[place] = depths * (prompts[place] / len(blocks))
        return found

    def check(self, alive: set[int]) -> None:
        """See that nothing is kept of requests that ended.

        Raises:
            RuntimeError: something is.
        """
        if self._index is not None:
            self._index.check()
        left = (self._blocks.keys() | self._matched.keys()) - alive
        if left:
            raise RuntimeError(f"prefixes of ended requests are kept: {sorted(left)[:3]}")
