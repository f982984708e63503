"""Throttled: the first worker below a concurrency threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep.config import Numbers
from evenstep.errors import InputError
from evenstep.request import I8
from evenstep.routing.capability import capabilities, check_capabilities
from evenstep.routing.filling import Filling
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class Throttled:
    """The oldest request goes to the first worker, by index, that is below its threshold and has room for it.

    A request waits while every worker is at its threshold, even where slots are free. A worker's threshold is
    `threshold` times its capability over the largest capability, rounded, at least 1; it counts requests running and
    sent.

    Args:
        threshold: requests at a time on the most capable worker; None = the slots of each worker, times its capability.
        capability: what each worker can do, e.g. ``1/1/0.5``, repeated over the fleet; empty = by speed.

    Raises:
        InputError: a threshold below 1, or a capability that is not above 0.

    Source: BF-IO App. A.1.1 (TLB). Of a capability vector we keep one number: slots and KV memory, its other entries, a
    host limits by itself. The requirement of a request is its prompt, the only part known at admission.
    """

    threshold: int | None = None
    capability: Numbers = ()

    def __post_init__(self) -> None:
        if self.threshold is not None and self.threshold < 1:
            raise InputError("throttled", "threshold", self.threshold, "an integer >= 1")
        stated = check_capabilities("throttled", "capability", self.capability)
        object.__setattr__(self, "capability", stated)

    def route(self, view: RoutingView) -> RoutingDecision:
        filling = Filling(view)
        count = view.running + view.queued
        limit = self._limits(view)
        for request in range(view.waiting_id.size):
            workers = filling.open_to(request)
            below = workers[count[workers] < limit[workers]]
            if below.size:
                filling.send(request, int(below[0]))
                count[below[0]] += 1
            elif filling.full:
                break
        return filling.decision()

    def _limits(self, view: RoutingView) -> I8:
        """int64[G], the threshold of each worker."""
        capability = capabilities(view, self.capability)
        slots = view.running + view.queued + view.free_slots
        most = slots if self.threshold is None else np.full(slots.size, self.threshold)
        return np.maximum(1, (most * (capability / capability.max()) + 0.5).astype(np.int64))


policy = Throttled
