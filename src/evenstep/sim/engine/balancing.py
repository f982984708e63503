"""Assigns each request to one of an engine's data-parallel ranks: a routing policy with periodic reports of the ranks."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstep import names
from evenstep.errors import InputError, PolicyError
from evenstep.request import F8, I8, Trace
from evenstep.routing.policies.vllm import VLLM
from evenstep.routing.view import HOLD, RoutingView, broken_rule, check_simulated, horizon_of, memory_size_of
from evenstep.scheduling.view import UNLIMITED


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Reports of the R ranks at one time: int64[R] and float64[R], entry r of rank r."""

    waiting: I8  # requests in the rank's queue
    running: I8  # requests that hold memory
    waiting_tokens: F8  # prompt and produced tokens of the waiting ones
    held: F8  # KV tokens of memory in use


class Balancer:
    """Assigns each request to a rank when it arrives.

    The policy sees the ranks' counts of the last broadcast; requests sent since then count as waiting. A broadcast goes out
    once the ranks have reported and the previous one is `news_s` old. Its counts replace all that the policy saw, even if
    the ranks have not yet counted the requests sent since (as in vLLM).

    Args:
        spec: a routing policy, NAME or NAME:key=value.
        ranks: number of ranks.
        capacity: KV tokens of a rank; inf = no limit.
        trace: the requests that will arrive.
        seed: key of every random draw.
        news_s: least seconds between two broadcasts; 0 = each report is broadcast.

    Raises:
        InputError: the policy is unknown, has a wrong option, looks ahead, or needs expected output lengths.

    Source: vLLM 0.19, v1/engine/core_client.py (DPLBAsyncMPClient) and v1/engine/coordinator.py.
    """

    def __init__(self, spec: str, ranks: int, capacity: float, trace: Trace, seed: int, news_s: float) -> None:
        try:
            self.policy: Any = names.build("routing", names.parse(spec))
        except InputError as error:
            if error.field != "name":
                raise
            raise InputError("engine", "balancer", spec, "a routing policy", error.hint) from None
        if horizon_of(self.policy):
            raise InputError("engine", "balancer", spec, "a routing policy that does not look ahead")
        check_simulated(self.policy, spec)
        self.spec, self.ranks, self.capacity = spec, ranks, capacity
        self.reads_usage = isinstance(self.policy, VLLM) and capacity < math.inf
        self.seed, self.news_s = seed, news_s
        self.memory: I8 = np.zeros(memory_size_of(self.policy), np.int64)
        ints, floats = np.zeros((2, ranks), np.int64), np.zeros((2, ranks))
        self.known = Counts(ints[0], ints[1], floats[0], floats[1])
        self.told_s = -math.inf
        self.heard: deque[tuple[float, Counts]] = deque()
        self.decisions = 0
        session, key = trace.column("session"), trace.column("prompt_key")
        self.keys: I8 = np.where(session >= 0, session, np.where(key != 0, key, trace.request_id))
        self.classes, self.prompts, self.ids = trace.column("request_class"), trace.prompt_tokens, trace.request_id

    def hear(self, now_s: float, counts: Counts) -> None:
        """Keep the ranks' counts at time `now_s`, the start of a step, for a later broadcast. Call it in order of time."""
        self.heard.append((now_s, counts))

    def choose(self, row: int, arrival_s: float) -> int:
        """Ask the policy for the rank, 0..R-1, of the request in `row` of the trace, and count the request as waiting there.

        `arrival_s` is the time now. Call it once a request, in order of arrival. A PolicyError if the policy raised (a
        PolicyError stays as it is), broke its contract, or holds the request.
        """
        self._listen(arrival_s)
        view = self._view(row, arrival_s)
        try:
            decision = self.policy.route(view)
            broken = broken_rule(view, decision)
        except PolicyError:
            raise
        except Exception as error:
            raise PolicyError(f"{self.spec} raised {type(error).__name__}: {error}") from error
        if broken:
            raise PolicyError(f"{self.spec}: {broken}")
        rank = int(decision.worker[0])
        if rank == HOLD:
            raise PolicyError(f"{self.spec}: keeps request {self.ids[row]} back; ranks take it at its arrival")
        self.decisions += 1
        if decision.memory is not None:
            self.memory = np.array(decision.memory, np.int64)
        self.known.waiting[rank] += 1
        self.known.waiting_tokens[rank] += float(self.prompts[row])
        return rank

    def _listen(self, now_s: float) -> None:
        """Make the broadcasts that were due by `now_s`: `known` becomes the newest counts reported by the last of them."""
        while self.heard:
            at_s = max(self.heard[0][0], self.told_s + self.news_s)
            if at_s > now_s:
                return
            while self.heard and self.heard[0][0] <= at_s:
                self.known = self.heard.popleft()[1]
            self.told_s = at_s

    def _view(self, row: int, now_s: float) -> RoutingView:
        """The policy's view of the ranks, by the counts `known`, and of the one request in `row` of the trace."""
        known, need = self.known, float(self.prompts[row])
        free, queued_load = np.maximum(self.capacity - known.held - known.waiting_tokens, need), known.waiting_tokens.copy()
        if self.reads_usage:  # to this policy a rank's memory is the sum of load, queued_load and kv_free
            queued_load = self.capacity - known.held - free
        return view_of_one(
            decision=self.decisions,
            seed=self.seed,
            now_s=now_s,
            group=np.zeros(self.ranks, np.int64),
            queued=known.waiting.copy(),
            queued_load=queued_load,
            load=known.held.copy(),
            free_slots=np.full(self.ranks, UNLIMITED),  # a rank accepts every request and queues it
            running=known.running.copy(),
            kv_free=free,
            seconds_per_token=np.ones(self.ranks),
            waiting_id=self.ids[row : row + 1],
            waiting_load=np.array([need]),
            waiting_class=self.classes[row : row + 1],
            waiting_key=self.keys[row : row + 1],
            memory=self.memory,
        )


def view_of_one(**known: Any) -> RoutingView:
    """A routing view of one waiting request that has just come, from the fields `known`; its output length is unknown."""
    return RoutingView(
        mean_wait_s=0.0,
        waited_s=np.zeros(1),
        waiting_steps=np.full(1, np.nan),
        projections=known["load"][:, None].copy(),
        growth=np.zeros(1),
        cached_tokens=np.zeros((0, 0)),
        **known,
    )
