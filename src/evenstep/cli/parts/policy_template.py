"""What ``evenstep policy new`` writes."""

from __future__ import annotations

POLICY = '''"""NAME: the oldest request goes to the worker with the fewest KV tokens. Change it into your own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstep import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class TITLE:
    """The oldest request goes to the worker with the fewest KV tokens.

    Args:
        tokens_a_request: what a request on a worker counts beside its tokens. A field is an option:
            ``--policy NAME.py:tokens_a_request=100``.
    """

    tokens_a_request: float = 0.0

    def route(self, view: RoutingView) -> RoutingDecision:
        worker = np.full(view.waiting_id.size, HOLD, np.int64)  # a worker for each waiting request, or HOLD
        load = view.load + view.queued_load + self.tokens_a_request * (view.running + view.queued)
        free_slots, kv_free = view.free_slots.copy(), view.kv_free.copy()  # the view is read-only
        for i in range(worker.size):  # oldest first
            size = view.waiting_load[i]
            fits = np.flatnonzero((free_slots > 0) & (kv_free >= size))
            if fits.size:
                g = fits[np.argmin(load[fits])]
                worker[i] = g
                load[g] += size + self.tokens_a_request
                free_slots[g] -= 1
                kv_free[g] -= size
        return RoutingDecision(worker)


policy = TITLE
'''

#: The same policy as a rule: text that runs compiled.
RULE = '''"""NAME: the oldest request goes to the worker with the fewest KV tokens. Change it into your own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from evenstep.compiled import Floats, Ints
from evenstep.routing.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class TITLE(Ruled):
    """The oldest request goes to the worker with the fewest KV tokens.

    Args:
        tokens_a_request: what a request on a worker counts besides its tokens. A field is an option:
            ``--policy NAME.py:tokens_a_request=100``.
    """

    tokens_a_request: float = 0.0


class Work(NamedTuple):
    """What the rule writes: the answer first, then working space of your own. A rule cannot make new arrays."""

    worker: Ints  # a worker for each waiting request; HOLD until you write one
    memory: Ints
    bound: Floats
    free_slots: Ints
    kv_free: Floats
    load: Floats


def room(workers: int, waiting: int, horizon: int, options: TITLE) -> tuple[int, ...]:
    """Numbers in each array of your own, in their order."""
    return workers, workers, workers


@rule
def route(view: RuleView, options: TITLE, work: Work) -> None:
    """Send the oldest requests, one after the other. The view is read-only."""
    for g in range(view.load.size):
        requests = view.running[g] + view.queued[g]
        work.free_slots[g], work.kv_free[g] = view.free_slots[g], view.kv_free[g]
        work.load[g] = view.load[g] + view.queued_load[g] + options.tokens_a_request * requests
    for i in range(view.waiting_load.size):  # oldest first
        size, best = view.waiting_load[i], -1
        for g in range(view.load.size):
            fits = work.free_slots[g] > 0 and work.kv_free[g] >= size
            if fits and (best < 0 or work.load[g] < work.load[best]):
                best = g
        if best >= 0:
            work.worker[i] = best
            work.load[best] += size + options.tokens_a_request
            work.free_slots[best] -= 1
            work.kv_free[best] -= size


policy = TITLE
'''

TEST = '''"""NAME keeps the promises of a routing policy. Run it with pytest."""

from __future__ import annotations

from evenstep.routing.check_views import check_views
from evenstep.routing.checks import check
from NAME import TITLE


def test_NAME_keeps_every_promise():
    assert [finding for finding in check(TITLE()) if not finding.passed] == []


def test_NAME_fills_every_slot_it_can():
    for view in check_views(horizon=0, memory=0):
        if (view.kv_free == float("inf")).all():
            sent = int((TITLE().route(view).worker >= 0).sum())
            assert sent == min(view.waiting_id.size, int(view.free_slots.sum()))
'''
