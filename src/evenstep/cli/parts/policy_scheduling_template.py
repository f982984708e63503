"""What ``evenstep policy new --kind scheduling`` writes."""

from __future__ import annotations

POLICY = '''"""NAME: what runs goes on, then the queue while memory lasts. Change it into your own."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.filling import Filling, run_or_evict
from evenstep.scheduling.view import BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class TITLE:
    """Requests that decode, then those in the middle of their prefill, then the queue in order of arrival.

    Args:
        room: KV tokens that an admission leaves free for the growth of each request in the batch; more of it means fewer
            evictions and smaller batches. A field is an option: ``--policy NAME.py:room=64``.
    """

    room: int = 32

    def form_batch(self, view: EngineView) -> BatchDecision:
        batch = Filling(view)  # keeps count of budget, seats and memory
        running = range(batch.running)  # positions: those that run first, in order of admission
        for request in sorted(running, key=lambda request: not view.decoding[request]):
            run_or_evict(batch, request)  # evicts the one admitted last where memory is short
        if batch.evicted.any():
            return batch.decision()
        for request in range(batch.running, view.left.size):  # the queue, oldest first
            others = int((batch.tokens > 0).sum())
            # `admit` asks for room for the whole prompt; with room for its first chunk alone, prompts evict each other
            if not batch.admit(request, reserve=self.room * others):
                break
        return batch.decision()


policy = TITLE
'''

#: The same policy as a rule, which is compiled.
RULE = '''"""NAME: what runs goes on, then the queue while memory lasts. Change it into your own."""

from __future__ import annotations

from dataclasses import dataclass

from evenstep.scheduling.batch import Batch, admit
from evenstep.scheduling.eviction import run_phase
from evenstep.scheduling.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class TITLE(Ruled):
    """Requests that decode, then those in the middle of their prefill, then the queue in order of arrival.

    Args:
        room: KV tokens that an admission leaves free for the growth of each request in the batch; more of it means fewer
            evictions and smaller batches. A field is an option: ``--policy NAME.py:room=64``.
    """

    room: int = 32


@rule
def form_batch(view: RuleView, options: TITLE, batch: Batch) -> None:
    """Fill one batch. It is compiled: loops, numbers and arrays, no lists or objects."""
    run_phase(view, batch, 1)  # decodes; where memory is short the request admitted last is evicted
    run_phase(view, batch, 0)  # running prefills
    if batch.gone[0] > 0:
        return
    for i in range(view.waiting.size):  # the queue, oldest first; view.left[row] says what is known of a request
        # `admit` asks for room for the whole prompt; with room for its first chunk alone, prompts evict each other
        row, position = view.waiting[i], view.running.size + i
        if not admit(view, batch, row, position, options.room * batch.given[0]):
            break


policy = TITLE
'''

TEST = '''"""NAME keeps the promises of a scheduling policy. Run it with pytest."""

from __future__ import annotations

import numpy as np

from evenstep.request import Trace
from evenstep.scheduling.checks import check
from evenstep.sim.engine.simulation import Engine, simulate_engine
from NAME import TITLE


def test_NAME_keeps_every_promise():
    assert [finding for finding in check(TITLE()) if not finding.passed] == []


def test_NAME_runs_every_request_to_its_end():
    trace = Trace(np.arange(1, 41), np.arange(1, 41))
    run = simulate_engine(trace, TITLE(), engine=Engine(token_budget=64, kv_tokens=200))
    assert run.totals.requests == 40
'''
