"""A prefill tier in front of a decode fleet: P engines that only prefill, and the time at which each prompt is ready.

The decode fleet has no effect on this tier. The times are therefore worked out first and given to the cluster simulator as
arrivals. KV that waits on a prefiller for a decode slot takes no memory there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenstep.cost.batch import Batch, BatchTime
from evenstep.errors import InputError, check_range
from evenstep.request import F8, I8, Trace
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm
from evenstep.sim.engine.simulation import Engine, simulate_engine


@dataclass(frozen=True, slots=True)
class PrefillTier:
    """P prefillers, each with its own queue, which it batches oldest first, whole prompts up to a token budget.

    Raises:
        InputError: `prefillers` or `token_budget` is not an integer >= 1.

    Source: BalanceRoute sec. 5 (a dispatcher picks an unsaturated prefiller); the batch law is not given there.
    """

    prefillers: int  # P
    batch_time: BatchTime  # the law that gives the seconds of a batch of prompts
    token_budget: int = 2048  # the most prompt tokens of a batch; a longer prompt runs in chunks

    def __post_init__(self) -> None:
        expected = "an integer >= 1"
        check_range("prefill tier", expected, low=1, prefillers=self.prefillers, token_budget=self.token_budget)

    @property
    def tokens_per_s(self) -> float:
        """Prompt tokens that the whole tier runs in a second if all batches are full."""
        return self.prefillers * self.token_budget / self.batch_time.seconds(Batch(tokens=self.token_budget))

    def ready(self, trace: Trace) -> Trace:
        """Return a copy of the trace whose arrival times are the ends of its prompts' prefills, seconds on the same clock.

        Rows are sorted by these times, equal times by row, and renumbered. Each prompt goes at its arrival to the prefiller
        with the fewest tokens left if all batches are full; of equals, to the lowest. An InputError without arrival times.
        """
        if trace.arrival_s is None:
            raise InputError("prefill tier", "arrival_s", "missing", "arrival times", "Give the trace a rate.")
        arrival_s = trace.arrival_s
        ready_s = np.empty(len(trace))
        chosen = self._chosen(trace.prompt_tokens, arrival_s)
        for number in range(self.prefillers):
            rows = np.flatnonzero(chosen == number)
            if rows.size:
                own = Trace(trace.prompt_tokens[rows], np.ones(rows.size, np.int64), arrival_s=arrival_s[rows])
                engine = Engine(token_budget=self.token_budget, batch_limit=0)
                run = simulate_engine(own, VanillaVllm(), engine=engine, batch_time=self.batch_time)
                ready_s[rows[run.requests.request_id]] = run.requests.finished_s
        order = np.argsort(ready_s, kind="stable")
        return replace(trace.take(order), arrival_s=ready_s[order])

    def _chosen(self, prompt_tokens: I8, arrival_s: F8) -> I8:
        """int64[N], each prompt's prefiller: at its arrival, the one with the fewest tokens left if all batches are full."""
        left, chosen = np.zeros(self.prefillers), np.empty(arrival_s.size, np.int64)
        rate, before = self.tokens_per_s / self.prefillers, 0.0
        for row in np.argsort(arrival_s, kind="stable"):
            left = np.maximum(0.0, left - rate * (arrival_s[row] - before))
            before = arrival_s[row]
            chosen[row] = np.argmin(left)
            left[chosen[row]] += prompt_tokens[row]
        return chosen
