"""The parts of a dispatcher that hold its state, in order: each uses only those before it. Its figures and invariants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from evenstep.dispatch.fleet.fleet import Fleet
from evenstep.dispatch.fleet.prefixes import Prefixes
from evenstep.dispatch.log.journal import Journal
from evenstep.dispatch.log.meters import Meters
from evenstep.dispatch.log.records import Record
from evenstep.dispatch.requests.deadlines import Deadlines
from evenstep.dispatch.requests.exclusions import Exclusions
from evenstep.dispatch.requests.pool import AdmissionLimits, Pool
from evenstep.dispatch.requests.prefill_queue import PrefillQueue
from evenstep.dispatch.requests.rows import Rows
from evenstep.dispatch.rounds.barriers import Barriers
from evenstep.dispatch.rounds.deciding import Deciding
from evenstep.dispatch.rounds.rounds import Rounds
from evenstep.dispatch.rounds.slots import Slots
from evenstep.dispatch.settings import Settings
from evenstep.dispatch.timers import Timers
from evenstep.dispatch.transitions import State
from evenstep.dispatch.turn import Turn
from evenstep.late import change
from evenstep.measure.metrics import known

_WAITING = (State.FOR_PREFILLER, State.PREFILLING, State.POOLED, State.SEATING, State.BACKING_OFF)
_TIMED = (State.FOR_PREFILLER, State.POOLED, State.SEATING)


class Parts:
    """All state of one dispatcher, one attribute for each part (`rows`, `pool`, `fleet`, ...)."""

    def __init__(self, settings: Settings, policy: str, predictor: str, log: Callable[[Record], None] | None) -> None:
        self.turn = turn = Turn(settings)
        self.rows, self.meters, self.journal = Rows(), Meters(), Journal(log)
        self.pool, self.limits = Pool(self.rows), AdmissionLimits(settings)
        self.prefixes = Prefixes(settings.prefix_blocks)
        self.fleet = Fleet(turn, Timers())
        self.exclusions = Exclusions(self.rows, self.fleet)
        self.deadlines = Deadlines(turn, self.rows, self.fleet.timers, self.exclusions)
        self.prefills = PrefillQueue(turn, self.rows, self.fleet, self.exclusions)
        self.rounds = Rounds(turn, self.pool, self.fleet.mirror)
        self.barriers = Barriers(self.rows, self.fleet.mirror, self.rounds)
        self.slots = Slots(turn, self.rows, self.fleet, self.pool, self.limits, self.barriers, self.prefixes, self.meters)
        self.deciding = Deciding(settings, self.rows, self.fleet, self.prefixes, self.meters)
        self.deciding.load(policy, predictor)
        self.rounds.binds_at_once = self.deciding.call.binds_at_once

    def snapshot(self) -> dict[str, Any]:
        """All measured values by metric name without ``evenstep_``: numbers, bools, texts, lists and dictionaries.

        A value that is not known is None. Each item of `workers`, `prefillers` and `groups` is a dictionary. Times are in
        seconds.
        """
        now_s, since_s, deciding = self.turn.now_s, self.rows.at.since_s, self.deciding
        mirror, prefill, fell = self.fleet.mirror, self.fleet.prefill, deciding.fallback.last
        return {
            "pool_depth": len(self.pool),
            "pool_oldest_seconds": max(0.0, now_s - since_s[self.pool.oldest()]) if len(self.pool) else 0.0,
            "waiting_for_prefill": len(self.prefills.waiting),
            "requests_present": len(self.rows.by_request),
            "tenants": {name: here.requests for name, here in self.limits.present.items()},
            "policy": deciding.call.text,
            "predictor": deciding.predictor_text if deciding.ahead is not None else "",
            "policy_has_kernel": deciding.call.has_kernel and change.is_compiled,
            "policy_is_off": deciding.fallback.is_off,
            "fallback_total": dict(deciding.fallback.counted),
            "fallback_last": None if fell is None else asdict(fell),
            "workers": [self._worker(place) for place in range(len(mirror.workers))],
            "prefillers": [
                {"worker": at, "prefill_budget_free": prefill.free(at), "requests": len(one.requests), "is_up": one.is_up}
                for at, one in prefill.prefillers.items()
            ],
            "groups": [{"group": group, **steps.values(mirror)} for group, steps in enumerate(self.barriers.steps)],
            "state_divergence_total": sum(worker.divergences for worker in mirror.workers),
            "prefix_prompt_tokens_total": self.prefixes.sent_tokens,
            "prefix_hit_tokens_total": self.prefixes.hit_tokens,
            "predictions": deciding.ahead.gate.counted() if deciding.ahead is not None else {},
            **self.meters.values(),
        }

    def _worker(self, place: int) -> dict[str, Any]:
        mirror = self.fleet.mirror
        worker, at = mirror.workers[place], mirror.at
        belief = self.prefixes.belief(place)
        return {
            "worker": worker.spec.name,
            "group": mirror.group[place],
            "group_name": worker.spec.group or worker.spec.name,
            "worker_kv_tokens": at.load[place] + at.sent_load[place],
            "worker_active_requests": at.running[place] + at.sent[place],
            "worker_state_age_seconds": self.turn.now_s - worker.heard_s if worker.spec.scraped else 0.0,
            "foreign_requests": worker.foreign,
            "foreign_kv_tokens": worker.foreign_load,
            "is_shared": worker.is_shared,
            "free_slots": mirror.free(place),
            "slots": worker.spec.slots,
            "kv_capacity_tokens": None if math.isinf(worker.capacity) else worker.capacity,
            "is_up": worker.is_up,
            "is_known": worker.is_known,
            "is_leaving": worker.leaves,
            "state_divergence_total": worker.divergences,
            "prefix_believed_share": known(belief.believed_share),
            "prefix_true_share": known(belief.true_share),
            "prefix_room_blocks": belief.room,
        }

    def check(self) -> None:
        """Check that queues, slots, limits and deadlines agree with the requests' states; for tests, between two events.

        Raises RuntimeError if they do not; the message says what differs.
        """
        rows, mirror, settings = self.rows, self.fleet.mirror, self.turn.settings
        states = {row: rows.state(row) for row in rows.by_request.values()}
        if len(states) != len(rows.by_request) or set(states) & set(rows.free):
            raise RuntimeError("a row is used twice")
        if any(state is State.FREE for state in states.values()):
            raise RuntimeError("a request that ended is still known")
        _same("the pool", sorted(self.pool), _of(states, State.POOLED))
        _same("the pool's order", list(self.pool), self.pool.in_order())
        _same("the queue for prefillers", sorted(self.prefills.waiting), _of(states, State.FOR_PREFILLER))
        _same("tenants", sorted(self.limits.of), sorted(states))
        seating = sorted(row for found in self.slots.seating.values() for row in found)
        _same("seating", seating, _of(states, State.SEATING))
        here = Counter(found.tenant for found in self.limits.of.values())
        _same("present", {name: found.requests for name, found in self.limits.present.items()}, dict(here))
        waiting = set(_of(states, *_WAITING))
        here = Counter(self.limits.of[row].tenant for row in waiting)
        _same("waiting tenants", here, Counter({name: found.waiting for name, found in self.limits.present.items()}))
        kept = sorted(row for found in self.fleet.prefill.prefillers.values() for row in found.requests)
        _same("requests at prefillers", kept, sorted(self.prefills.prefiller_of))
        self.prefixes.check(set(states), waiting)
        margin = settings.bypass_margin if self.deciding.has_bypassed else 0
        mirror.check(lambda place: self._told(states, place), margin)
        for group in range(mirror.groups):
            lasts = [
                rows.at.step[row]
                for row, state in states.items()
                if state is State.RUNNING and mirror.group[rows.at.worker[row]] == group
            ]
            self.barriers.all.check(group, lasts)
        late = [
            row
            for row, state in states.items()
            if state in _TIMED and rows.at.queued_s[row] + settings.ttl_s < self.turn.now_s < self.deadlines.next_s
        ]
        if late:
            raise RuntimeError(f"rows {late} have waited longer than they may")
        if not {*self.exclusions.excluded, *self.exclusions.avoided} <= set(states):
            raise RuntimeError("engines are excluded or avoided for rows without a request")
        oldest_s = min((rows.at.since_s[row] for row in states), default=math.inf)
        if settings.total_s and self.deadlines.overdue_s > oldest_s + settings.total_s:
            raise RuntimeError("the oldest request may last longer than it may")

    def _told(self, states: dict[int, State], place: int) -> tuple[int, int, int, float, float, int]:
        """Counts from a worker's requests: slots running, sent, reserved, KV tokens running, sent, and running requests."""
        at = self.rows.at
        here = [row for row in states if at.worker[row] == place]
        running, sent, seating = (
            [row for row in here if states[row] is state] for state in (State.RUNNING, State.SENT, State.SEATING)
        )
        slots = [sum(at.copies[row] for row in rows) for rows in (running, sent)]
        load = [float(sum(self.rows.load(row) for row in rows)) for rows in (running, sent)]
        return slots[0], slots[1], sum(at.seated[row] for row in seating), load[0], load[1], len(running)


def _of(states: dict[int, State], *wanted: State) -> list[int]:
    """Rows in one of the wanted states, ascending."""
    return sorted(row for row, state in states.items() if state in wanted)


def _same(what: str, kept: object, told: object) -> None:
    """Raise a RuntimeError that names `what`, unless the two values are equal."""
    if kept != told:
        raise RuntimeError(f"{what}: kept {kept}, the requests say {told}")
