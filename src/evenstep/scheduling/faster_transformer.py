"""FasterTransformer: a group of requests is prefilled together and decodes to its end before the next one starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.errors import InputError
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.preempting import run_or_evict
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class FasterTransformer:
    """When nothing runs the queue's first become a group; it is prefilled, then decodes, and nobody joins until it is done.

    Not work-conserving: batches shrink while the group's longest outputs end, and prompts wait for them. Prefills and
    decodes do not mix; a group whose prompts exceed the budget takes several iterations of prefill. Who does not fit into
    memory whole is left for the next group; a decode that does not fit evicts the request admitted last. (The engine
    itself reserves memory for the longest output it allows.)

    Args:
        group: requests of a group at most; 0 = the engine's batch limit.

    Raises:
        InputError: a negative size.

    Source: Throughput-optimal sec. 3: decode first, not mixed; request-level batches.
    """

    group: int = 0

    def __post_init__(self) -> None:
        if self.group < 0:
            raise InputError(
                "faster-transformer", "group", self.group, "requests, >= 0", "0 is the batch limit."
            )

    @property
    def memory_size(self) -> int:
        """One word: how many of the queue's first still belong to the group."""
        return 1

    def form_batch(self, view: EngineView) -> BatchDecision:
        filling = Filling(view)
        joining = int(view.memory[0]) if filling.running else self._size(view)
        chunks = [k for k in range(filling.running) if not view.decoding[k]]
        for request in chunks:
            run_or_evict(filling, request)
        joining = self._admit(filling, joining)
        if not filling.tokens.any():
            for request in range(filling.running):
                if view.decoding[request]:
                    run_or_evict(filling, request)
        return filling.decision(np.array([joining], np.int64))

    def _size(self, view: EngineView) -> int:
        """How many of the queue's first are alike in phase: the next group."""
        most = min(self.group or UNLIMITED, view.batch_limit, view.resident_limit, view.left.size)
        different = np.flatnonzero(view.decoding[:most] != view.decoding[0]) if most else np.zeros(0)
        return int(different[0]) if different.size else most

    def _admit(self, filling: Filling, joining: int) -> int:
        """Members of the group that fit; how many are still to join."""
        for request in range(filling.running, filling.running + joining):
            whole = filling.grows(request, int(filling.view.left[request]))
            if filling.evicted.any() or whole > filling.free:
                return 0
            if not filling.offer(request):
                return joining
            joining -= 1
        return joining


policy = FasterTransformer
