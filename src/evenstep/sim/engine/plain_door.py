"""The plain door: a policy's own `form_batch` is asked at every iteration of the compiled loop, by a kernel that asks it."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenstep.compiled import batch_kernel
from evenstep.errors import PolicyError
from evenstep.scheduling.view import EVICTED, PICKED, BatchDecision, EngineView, broken_rule
from evenstep.sim.asking import question
from evenstep.sim.engine.model import NEVER, Fixed, Run, Shown

#: Fields of a view that are settings of the run.
_SETTINGS = [name for name in Fixed.__annotations__ if name in EngineView.__slots__]


class PlainDoor:
    """Shows a Python policy its view, checks its answer, and writes it for the loop. `error`: its last error, or None."""

    def __init__(self, policy: Any, run: Run) -> None:
        self.form_batch, self.run = policy.form_batch, run
        self.error: BaseException | None = None

    def answer(self, iteration: int, now_s: float) -> float:
        """Ask the policy for this iteration's batch and write it for the loop; returns its `wake_s`, seconds."""
        return self.decide(self.view(iteration, now_s))

    def stop(self, error: BaseException) -> None:
        """Keep an error in `error` for the host, and stop the loop by `Now.raised`."""
        self.error = error
        self.run.now.raised = 1

    def view(self, iteration: int, now_s: float) -> EngineView:
        """The policy's view of this iteration: running requests by admission, then the queue. Its arrays are copies."""
        fixed, now, requests, policy = self.run.fixed, self.run.now, self.run.requests, self.run.policy
        runs, first = int(now.running), int(now.first)
        waiting = self.run.lists.waiting[first : first + int(now.waiting)]
        order = np.concatenate([self.run.lists.running[:runs], waiting])
        seen = dict(zip(Shown.__annotations__, np.ascontiguousarray(requests.table[order].T), strict=True))
        return EngineView(
            iteration=iteration,
            now_s=now_s,
            kv_free=int(now.kv_free),
            **{name: int(getattr(fixed, name)) for name in _SETTINGS},
            arrived=policy.arrived.copy(),
            memory=policy.memory.copy(),
            arrival_s=requests.arrival_s[order],
            running=np.arange(order.size) < runs,
            decoding=seen.pop("decoding") > 0,
            **seen,
        )

    def decide(self, view: EngineView) -> float:
        """Ask the policy, check its answer by the contract of `scheduling.view`, and write it into `run.policy`.

        Returns its `wake_s`: when to ask again if no request runs, in seconds. A PolicyError if the answer is invalid.
        """
        policy = self.run.policy
        decision: BatchDecision = self.form_batch(view)
        may_evict = self.run.fixed.overflow != NEVER
        rule = broken_rule(view, decision, policy.memory.size, may_evict=may_evict)
        if rule:
            raise PolicyError(rule)
        picked, evicted = np.flatnonzero(decision.tokens), np.flatnonzero(decision.evict)
        policy.picked[0, : picked.size] = picked
        policy.picked[1, : picked.size] = decision.tokens[picked]
        policy.evicted[: evicted.size] = evicted
        policy.counts[PICKED], policy.counts[EVICTED] = picked.size, evicted.size
        policy.memory[:] = decision.memory
        return float(decision.wake_s)


#: `answering(answer, stop)` sets ``answer(iteration, now_s)``, which writes the batch for the loop and returns `wake_s`.
_ask, answering = question("evenstep_ask_batch_policy", int, float)


@batch_kernel
def form_batch_into(
    iteration: Any,
    seed: Any,
    now_s: Any,
    limits: Any,
    running: Any,
    waiting: Any,
    first: Any,
    counts: Any,
    rows: Any,
    arrival_s: Any,
    arrived: Any,
    memory: Any,
    parameters: Any,
    scratch_i: Any,
    scratch_f: Any,
    picked: Any,
    evicted: Any,
) -> float:
    """Call the function set by `answering` with `iteration` and `now_s`: it writes the batch and gives `wake_s`, seconds."""
    return _ask(iteration, now_s)
