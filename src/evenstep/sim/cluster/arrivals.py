"""How requests become visible in the compiled cluster: saturated, timed, users, sessions."""

from __future__ import annotations

import math

from evenstep.compiled import part
from evenstep.sim.cluster.model import GROW, RUNNING, SATURATED, TIMED, USERS, Run
from evenstep.sim.cluster.pool import heap_pop, heap_push, push
from evenstep.sim.cluster.slots import weight


@part
def reveal_row(run: Run, row: int, since_s: float) -> None:
    """Put a request into the waiting pool with its load before decoding; `since_s` is when it became visible, in seconds.

    The caller has checked for room, and takes the request off the trace or heap that it came from.
    """
    load = weight(run.fixed, run.requests, row, 0) * run.fixed.unit
    push(run.now, run.pool, run.requests, row, load, since_s)


@part
def next_visible(run: Run) -> float:
    """The time at which the next request becomes visible, in seconds; inf = never, or saturated arrivals.

    With prefill times, arrivals move from the trace into the heap `coming` until the next is certain or the heap is full.
    """
    fixed, now, coming, requests = run.fixed, run.now, run.coming, run.requests
    if fixed.arrivals == TIMED:
        base, per_token = fixed.prefill_base_s, fixed.prefill_per_token_s
        if base == 0.0 and per_token == 0.0:
            return requests.arrival_s[now.cursor] if now.cursor < fixed.requests else math.inf
        while now.cursor < fixed.requests and now.coming < coming.size - 1:
            row = now.cursor
            if now.coming > 0 and requests.arrival_s[row] + base > coming[0].time_s:
                break
            ready_s = requests.arrival_s[row] + (base + per_token * requests.prompt[row])
            now.coming = heap_push(coming, now.coming, ready_s, row)
            now.cursor = row + 1
    if now.coming > 0 and not (fixed.arrivals == USERS and now.cursor >= fixed.requests):
        return coming[0].time_s
    return math.inf


@part
def start_session(run: Run) -> None:
    """Start session `Now.sessions_next` now: its requests that follow no other become visible after their think time.

    They are added to the heap `coming`, where the caller has checked for room.
    """
    now, sessions, at = run.now, run.sessions, run.now.sessions_next
    now.sessions_next = at + 1
    for i in range(sessions.root_offsets[at], sessions.root_offsets[at + 1]):
        row = sessions.roots[i]
        now.coming = heap_push(run.coming, now.coming, now.now_s + float(sessions.think_s[row]), row)


@part
def follow_up(run: Run, row: int) -> None:
    """Schedule the requests that follow the end of the one in `row`: its user's next, or those that wait for it.

    Each becomes visible after its think time. The last request of a session also starts the next one, if any is left. Call
    it with arrivals of users or sessions only, and with room for `follow_ups` entries in the heap.
    """
    now, sessions = run.now, run.sessions
    if run.fixed.arrivals == USERS:
        now.coming = heap_push(run.coming, now.coming, now.now_s + run.fixed.think_s, now.coming_sequence)
        now.coming_sequence += 1
        return
    for i in range(sessions.child_offsets[row], sessions.child_offsets[row + 1]):
        child = sessions.children[i]
        now.coming = heap_push(run.coming, now.coming, now.now_s + float(sessions.think_s[child]), child)
    session = sessions.session[row]
    sessions.left[session] -= 1
    if sessions.left[session] == 0 and now.sessions_next < sessions.left.size:
        start_session(run)


@part
def follow_ups(run: Run, row: int) -> int:
    """Count the heap entries that `follow_up` adds when the request in `row` ends: 1 for users, 0 or more for sessions."""
    if run.fixed.arrivals == USERS:
        return 1
    sessions, following = run.sessions, run.now.sessions_next
    need = sessions.child_offsets[row + 1] - sessions.child_offsets[row]
    if sessions.left[sessions.session[row]] == 1 and following < sessions.left.size:
        need += sessions.root_offsets[following + 1] - sessions.root_offsets[following]
    return need


@part
def reveal(run: Run) -> int:
    """Move requests that are visible by now into the waiting pool. Saturated arrivals fill it up to its target.

    Returns `RUNNING`, or `GROW` if the pool or the heap is full; the next call continues.
    """
    fixed, now, arrival_s = run.fixed, run.now, run.requests.arrival_s
    limit, arrivals = run.pool.id.size, run.fixed.arrivals
    if arrivals == SATURATED:
        while now.waiting < fixed.pool_target and now.cursor < fixed.requests:
            if now.waiting == limit:
                return GROW
            reveal_row(run, now.cursor, now.now_s)
            now.cursor += 1
        return RUNNING
    if arrivals == TIMED and fixed.prefill_base_s == 0.0 and fixed.prefill_per_token_s == 0.0:
        while now.cursor < fixed.requests and arrival_s[now.cursor] <= now.now_s:
            if now.waiting == limit:
                return GROW
            reveal_row(run, now.cursor, arrival_s[now.cursor])
            now.cursor += 1
        return RUNNING
    while next_visible(run) <= now.now_s:
        if now.waiting == limit or now.coming >= run.coming.size - 1:
            return GROW
        since_s, row = run.coming[0].time_s, run.coming[0].key
        now.coming = heap_pop(run.coming, now.coming)
        if arrivals == USERS:
            row = now.cursor
            now.cursor += 1
        reveal_row(run, row, since_s)
    if now.coming >= run.coming.size - 1 and arrivals == TIMED:
        return GROW  # an arrival that is not in the heap yet might be due already
    return RUNNING
