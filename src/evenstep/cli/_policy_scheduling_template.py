"""What ``evenstep policy new --kind scheduling`` writes."""

from __future__ import annotations

POLICY = '''"""NAME: running requests in order, then the queue while memory lasts. Change it into your own."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.preempting import run_or_evict
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class TITLE:
    """Running requests in order of admission, then the queue: short prompts first.

    Args:
        kept_free: KV tokens that an admission leaves free while others run. A field is an option:
            ``--policy NAME.py:kept_free=500``.
    """

    kept_free: int = 0

    @property
    def order(self) -> QueueOrder:
        return QueueOrder(prompt=1.0)  # the queue is shown in this order; left out, by arrival

    def form_batch(self, view: EngineView) -> BatchDecision:
        batch = Filling(view)  # keeps count of budget, seats and memory
        for request in range(batch.running):  # positions: those that run first, in order of admission
            run_or_evict(batch, request)  # evicts the one admitted last where memory is short
        if not batch.evicted.any():
            for request in range(batch.running, view.left.size):
                if not batch.offer(request, reserve=self.kept_free if request else 0):
                    break
        return batch.decision()


policy = TITLE
'''

TEST = '''"""NAME keeps the promises of a scheduling policy. Run it with pytest."""

from __future__ import annotations

import numpy as np

from evenstep.request import Trace
from evenstep.scheduling.checks import check
from evenstep.sim.engine import Engine, simulate_engine
from NAME import TITLE


def test_NAME_keeps_every_promise():
    assert [finding for finding in check(TITLE()) if not finding.passed] == []


def test_NAME_runs_every_request_to_its_end():
    trace = Trace(np.arange(1, 41), np.arange(1, 41))
    run = simulate_engine(trace, TITLE(), engine=Engine(token_budget=64, kv_tokens=200))
    assert run.totals.requests == 40
'''
