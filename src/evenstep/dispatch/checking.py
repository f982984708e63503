"""Checks every invariant of a dispatcher, starting from the requests' states."""

from __future__ import annotations

from collections import Counter

from evenstep.dispatch.parts import Parts
from evenstep.dispatch.transitions import State

_WAITING = (State.FOR_PREFILLER, State.PREFILLING, State.POOLED, State.SEATING, State.BACKING_OFF)
_TIMED = (State.FOR_PREFILLER, State.POOLED, State.SEATING)


def check(parts: Parts) -> None:
    """Check that queues, slots, limits and deadlines agree with the requests' states; for tests, between two events.

    Raises RuntimeError if they do not; the message names the part, with both values.
    """
    rows = parts.rows
    states = {row: rows.state(row) for row in rows.by_request.values()}
    if len(states) != len(rows.by_request) or set(states) & set(rows.free):
        raise RuntimeError("a row is used twice")
    if any(state is State.FREE for state in states.values()):
        raise RuntimeError("a request that ended is still known")
    _same("the pool", sorted(parts.pool), _of(states, State.POOLED))
    _same("the pool's order", list(parts.pool), parts.pool.in_order())
    _same("the queue for prefillers", sorted(parts.prefills.waiting), _of(states, State.FOR_PREFILLER))
    _same("tenants", sorted(parts.limits.of), sorted(states))
    seating = sorted(row for found in parts.slots.seating.values() for row in found)
    _same("seating", seating, _of(states, State.SEATING))
    here = Counter(found.tenant for found in parts.limits.of.values())
    _same("present", {name: found.requests for name, found in parts.limits.present.items()}, dict(here))
    waiting = set(_of(states, *_WAITING))
    here = Counter(parts.limits.of[row].tenant for row in waiting)
    _same("waiting tenants", here, Counter({name: found.waiting for name, found in parts.limits.present.items()}))
    kept = sorted(row for found in parts.fleet.prefill.prefillers.values() for row in found.requests)
    _same("requests at prefillers", kept, sorted(parts.prefills.prefiller_of))
    parts.prefixes.check(set(states), waiting)
    margin = parts.turn.settings.bypass_margin if parts.deciding.has_bypassed else 0
    parts.fleet.mirror.check(lambda place: _told(parts, states, place), margin)
    for group in range(parts.fleet.mirror.groups):
        lasts = [
            rows.at.step[row]
            for row, state in states.items()
            if state is State.RUNNING and parts.fleet.mirror.group[rows.at.worker[row]] == group
        ]
        parts.barriers.all.check(group, lasts)
    late = [
        row
        for row, state in states.items()
        if state in _TIMED and rows.at.queued_s[row] + parts.turn.settings.ttl_s < parts.turn.now_s < parts.deadlines.next_s
    ]
    if late:
        raise RuntimeError(f"rows {late} have waited longer than they may")
    if not {*parts.exclusions.excluded, *parts.exclusions.avoided} <= set(states):
        raise RuntimeError("engines are excluded or avoided for rows without a request")
    total_s = parts.turn.settings.total_s
    if states and total_s and parts.deadlines.overdue_s > min(rows.at.since_s[row] for row in states) + total_s:
        raise RuntimeError("the oldest request may last longer than it may")


def _told(parts: Parts, states: dict[int, State], place: int) -> tuple[int, int, int, float, float, int]:
    """Counts from a worker's requests: slots running, sent, reserved, KV tokens running, sent, and running requests."""
    at = parts.rows.at
    here = [row for row in states if at.worker[row] == place]
    running, sent, seating = (
        [row for row in here if states[row] is state] for state in (State.RUNNING, State.SENT, State.SEATING)
    )
    slots = [sum(at.copies[row] for row in rows) for rows in (running, sent)]
    load = [float(sum(parts.rows.load(row) for row in rows)) for rows in (running, sent)]
    return slots[0], slots[1], sum(at.seated[row] for row in seating), load[0], load[1], len(running)


def _of(states: dict[int, State], *wanted: State) -> list[int]:
    """Rows in one of the wanted states, ascending."""
    return sorted(row for row, state in states.items() if state in wanted)


def _same(what: str, kept: object, told: object) -> None:
    """Raise a RuntimeError that names `what`, unless the two values are equal."""
    if kept != told:
        raise RuntimeError(f"{what}: kept {kept}, the requests say {told}")
