"""Functions that the rules share. Some track the slots and KV memory left while a decision sends requests.

A rule holds a request that fits nowhere and goes on with the next one, so that one huge request does not block the pool.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, borrowing, part
from evenstep.draws import uniform_from
from evenstep.request import F8, I8
from evenstep.routing.rules import RuleView, WorkerFloats, WorkerInts
from evenstep.routing.view import HOLD


class Open(NamedTuple):
    """The answer (see `RoutingWork`), and a list of the open workers: those that still have a slot, by ascending index.

    The list is the first `count` entries of `open`, `slots` and `kv`. `list_open` returns `count`, and `send` the new one.
    """

    worker: Ints
    memory: Ints
    bound: Floats
    open: WorkerInts  # index in the view of the worker at each place of the list
    slots: WorkerInts  # free slots of the worker at each place
    kv: WorkerFloats  # KV tokens that may still be sent to the worker at each place


class Room(NamedTuple):
    """The answer (see `RoutingWork`), and the free slots and KV tokens of every worker, less what this decision has sent."""

    worker: Ints
    memory: Ints
    bound: Floats
    free_slots: WorkerInts  # slots left after the requests that this decision has sent
    kv_free: WorkerFloats  # KV tokens left likewise; inf where only slots limit


@part
def set_room(view: RuleView, work: Room) -> int:
    """Copy `work.free_slots` and `work.kv_free` from the view; returns the sum of the free slots of all workers."""
    for g in range(view.free_slots.size):
        work.free_slots[g] = view.free_slots[g]
        work.kv_free[g] = view.kv_free[g]
    return total_free(view)


@part
def has_room(g: int, size: float, work: Room) -> bool:
    """True if worker g has a free slot and at least `size` free KV tokens, after the requests sent so far."""
    return work.free_slots[g] > 0 and work.kv_free[g] >= size


@part
def list_with_room(size: float, fitting: I8, work: Room) -> int:
    """Write the workers with room for `size` tokens, ascending, to the front of `fitting`, int64[G]; returns how many."""
    count = 0
    for g in range(work.free_slots.size):
        fitting[count] = g
        count += has_room(g, size, work)
    return count


@part
def send_to(request: int, g: int, size: float, work: Room) -> None:
    """Answer that a request of `size` tokens goes to worker g, and subtract its slot and tokens from the worker's room.

    It does not check the room: call `has_room` first. `request` is the position in the pool, 0 = oldest.
    """
    work.worker[request] = g
    work.free_slots[g] -= 1
    work.kv_free[g] -= size


@part
def list_open(view: RuleView, work: Open) -> int:
    """List the open workers in `work` by index, with their slots and KV tokens from the view; returns their number."""
    count = 0
    for g in range(view.free_slots.size):  # without a branch, as a processor cannot predict which workers have a slot
        free, place = view.free_slots[g], np.uintp(count)  # see `take_out`
        work.open[place] = g
        work.slots[place] = free
        work.kv[place] = view.kv_free[g]
        count += free > 0
    return count


@part
def send(request: int, place: int, size: float, count: int, work: Open) -> int:
    """Send a request of `size` tokens to the worker at `place` in the list of open workers; returns the list's new length.

    A worker whose last slot this takes is removed from the list, and later entries move forward. A rule with columns of its
    own calls `take_out` for each of them first if the worker has one slot left. Room for the request is not checked.
    """
    work.worker[request] = work.open[place]
    work.kv[place] -= size
    work.slots[place] -= 1
    if work.slots[place] > 0:
        return count
    for j in range(place, count - 1):
        work.open[j] = work.open[j + 1]
        work.slots[j] = work.slots[j + 1]
        work.kv[j] = work.kv[j + 1]
    return count - 1


@part
def take_out(place: int, count: int, column: F8 | I8) -> None:
    """Remove the entry at `place` from a rule's own column of `count` entries (not of `Open`); later entries move up."""
    for j in range(place, count - 1):  # np.uintp: the compiler need not ask whether an index is negative
        column[np.uintp(j)] = column[np.uintp(j + 1)]


@part
def is_unlimited(view: RuleView) -> bool:
    """True if every worker's `kv_free` is inf, so that every request fits every open worker."""
    limited = 0
    for g in range(view.kv_free.size):
        limited += view.kv_free[g] < np.inf
    return limited == 0


@part
def one_each(level: int, low: int, high: int, i: int, view: RuleView, work: Open) -> int:
    """Send one request each to the workers in low..high-1 with at least `level` free slots in the view, by ascending index.

    The requests are i, i+1, ... up to the last waiting one. KV memory is ignored. Only `work.worker` is written. Returns the
    next request to send: i plus the number sent.
    """
    waiting = work.worker.size
    if waiting - i < high - low:
        for g in range(low, high):
            if i < waiting and view.free_slots[g] >= level:
                work.worker[np.uintp(i)] = g
                i += 1
        return i
    for g in range(low, high):  # without a branch, see `list_open`
        work.worker[np.uintp(i)] = g
        i += view.free_slots[g] >= level
    if i < waiting:
        work.worker[np.uintp(i)] = HOLD  # written for a worker without a slot
    return i


@part
def most_free(view: RuleView) -> int:
    """Free slots of the worker that has the most of them in the view."""
    most = view.free_slots[0]
    for g in range(view.free_slots.size):
        most = max(most, view.free_slots[g])
    return most


@part
def total_free(view: RuleView) -> int:
    """Sum of the free slots of all workers in the view, before this decision sends anything."""
    slots = 0
    for g in range(view.free_slots.size):
        slots += view.free_slots[g]
    return slots


@part
def list_where_slots_limit(view: RuleView, work: Open) -> int:
    """List the open workers by index in `work.open`; returns their number. Faster than `list_open`.

    It is for views in which KV memory does not limit. `work.slots` gets the free slots of every worker, by its index and not
    by place in the list. `work.kv` is not set.
    """
    count = 0
    for g in range(view.free_slots.size):
        work.slots[g] = view.free_slots[g]
    for g in range(view.free_slots.size):
        work.open[np.uintp(count)] = g
        count += view.free_slots[g] > 0
    return count


@part
def count_requests(view: RuleView, requests: I8) -> int:
    """Write the number of requests of each worker, running or queued, to `requests`, int64[G]; returns the total."""
    total = 0
    for g in range(view.running.size):
        requests[g] = view.running[g] + view.queued[g]
        total += requests[g]
    return total


@part
def count_serving(view: RuleView, requests: I8) -> int:
    """Number of workers with a request (by `requests`, int64[G]) or a free slot; others are lost, ejected or drained."""
    count = 0
    for g in range(requests.size):
        count += 1 if requests[g] > 0 or view.free_slots[g] > 0 else 0
    return count


@borrowing
def first_with(keys: Ints, key: int) -> int:
    """Position of the oldest request with this key; `keys.size` if there is no such request.

    `keys` is int64[W], oldest first. Call it from rules only: the compiled version crashes if Python calls it.
    """
    last = 0  # counted from the newest request: the compiler vectorises this scan, but not one for the first position
    for i in range(keys.size):
        last = max(last, keys.size - i if keys[i] == key else 0)
    return keys.size - last


@part
def set_load(view: RuleView, load: F8) -> None:
    """Write the KV tokens of each worker, of running and queued requests, to `load`, float64[G]."""
    for g in range(view.load.size):
        load[g] = view.load[g] + view.queued_load[g]


@part
def nth_with(keys: F8 | I8, key: float, rank: int) -> int:
    """Position of the `rank`-th (from 0) of the entries of exactly this key; there must be that many."""
    place = -1
    while rank >= 0:
        place += 1
        rank -= keys[np.uintp(place)] == key
    return place


@part
def draw_all(dice: np.uint64, draw: int, count: int, view: RuleView, chance: F8) -> None:
    """Write a random number in [0, 1) for each of the oldest `count` requests to `chance`, float64[>= count].

    It depends on `dice` (from `draws.head`), the request's id and `draw` alone. `draw` numbers the draws of a request from
    0.
    """
    for i in range(count):
        chance[i] = uniform_from(dice, view.waiting_id[i], draw)


@part
def count_overdue(view: RuleView, age_limit: float) -> int:
    """Number of overdue requests to place first: the oldest ones, which waited more than `age_limit` times the mean wait.

    It is at most a quarter of the fleet's free slots, rounded down, or 1 if that is more. It is 0 if `age_limit` is 0, and
    while the mean wait is 0.
    """
    if not (age_limit > 0.0 and view.mean_wait_s > 0.0):
        return 0
    most = min(view.since_s.size, max(1, total_free(view) // 4))
    return count_late(most, age_limit * view.mean_wait_s, view)


@part
def count_late(most: int, limit_s: float, view: RuleView) -> int:
    """Number of requests, counted from the oldest, that have waited longer than `limit_s` seconds; at most `most` (<= W)."""
    late = 0
    while late < most and view.now_s - view.since_s[late] > limit_s:
        late += 1
    return late
