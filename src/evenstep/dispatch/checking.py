"""Every invariant of a dispatcher, looked at from the requests' side."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from evenstep.dispatch.rows_layout import COPIES, QUEUED_AT, SEATED, SINCE, WORKER
from evenstep.dispatch.transitions import State

if TYPE_CHECKING:
    from evenstep.dispatch.dispatcher import Dispatcher

_WAITING = (State.FOR_PREFILLER, State.PREFILLING, State.POOLED, State.SEATING, State.BACKING_OFF)
_TIMED = (State.FOR_PREFILLER, State.POOLED, State.SEATING)


def check(all_: Dispatcher) -> None:
    """See that queues, slots, limits and deadlines are what the requests' states say.

    Raises:
        RuntimeError: one is not.
    """
    rows = all_.rows
    states = {row: rows.state(row) for row in rows.by_request.values()}
    if len(states) != len(rows.by_request) or set(states) & set(rows.free):
        raise RuntimeError("a row is used twice")
    if any(state is State.FREE for state in states.values()):
        raise RuntimeError("a request that ended is still known")
    _same("the pool", sorted(all_.pool), _of(states, State.POOLED))
    _same("the queue for prefillers", sorted(all_.for_prefiller), _of(states, State.FOR_PREFILLER))
    _same("tenants", sorted(all_.tenants), sorted(states))
    seating = sorted(row for found in all_.seating.values() for row in found)
    _same("seating", seating, _of(states, State.SEATING))
    here = Counter(found.tenant for found in all_.tenants.values())
    _same("present", {name: found.requests for name, found in all_.door.present.items()}, dict(here))
    waiting = set(_of(states, *_WAITING))
    here = Counter(all_.tenants[row].tenant for row in waiting)
    _same(
        "waiting tenants", here, Counter({name: found.waiting for name, found in all_.door.present.items()})
    )
    kept = sorted(row for found in all_.prefill.prefillers.values() for row in found.requests)
    _same("requests at prefillers", kept, sorted(all_.prefiller_of))
    all_.prefixes.check(set(states), waiting)
    margin = all_.settings.bypass_margin if all_.deciding.has_bypassed else 0
    all_.mirror.check(lambda place: _told(all_, states, place), margin)
    for group in range(all_.mirror.groups):
        lasts = [
            rows.step[row]
            for row, state in states.items()
            if state is State.RUNNING and all_.mirror.group[rows.i[WORKER][row]] == group
        ]
        all_.lockstep.check(group, lasts)
    late = [
        row
        for row, state in states.items()
        if state in _TIMED and rows.f[QUEUED_AT][row] + all_.settings.ttl_s < all_.now_s < all_.deadline_s
    ]
    if late:
        raise RuntimeError(f"rows {late} have waited longer than they may")
    if not {*all_.excluded, *all_.avoided} <= set(states):
        raise RuntimeError("engines are excluded or avoided for rows without a request")
    if states and all_.settings.total_s and all_.overdue_s > _oldest_s(all_) + all_.settings.total_s:
        raise RuntimeError("the oldest request may last longer than it may")


def _oldest_s(all_: Dispatcher) -> float:
    """When the oldest request arrived."""
    return min(all_.rows.f[SINCE][row] for row in all_.rows.by_request.values())


def _told(all_: Dispatcher, states: dict[int, State], place: int) -> tuple[int, int, int, float, float, int]:
    """What the requests say of one worker, in the order of `Mirror.check`."""
    i = all_.rows.i
    here = [row for row in states if i[WORKER][row] == place]
    running, sent, seating = (
        [row for row in here if states[row] is state] for state in (State.RUNNING, State.SENT, State.SEATING)
    )
    slots = [sum(i[COPIES][row] for row in rows) for rows in (running, sent)]
    load = [float(sum(all_.rows.load(row) for row in rows)) for rows in (running, sent)]
    return slots[0], slots[1], sum(i[SEATED][row] for row in seating), load[0], load[1], len(running)


def _of(states: dict[int, State], *wanted: State) -> list[int]:
    return sorted(row for row, state in states.items() if state in wanted)


def _same(what: str, kept: object, told: object) -> None:
    if kept != told:
        raise RuntimeError(f"{what}: kept {kept}, the requests say {told}")
