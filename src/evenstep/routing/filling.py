"""Slots and KV memory left while a decision fills them: functions that the rules share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, borrowing, part
from evenstep.draws import uniform_from
from evenstep.request import F8, I8
from evenstep.routing.rules import RuleView, WorkerFloats, WorkerInts
from evenstep.routing.view import HOLD


class Open(NamedTuple):
    """The answer (see `RoutingWork`), and the open workers: those that still have a slot, in index order.

    The list is `open[:count]`, with `slots` and `kv` at the same places; functions take and return `count`. A rule holds a
    request that fits nowhere and goes on with the next one, so that one huge request does not block the pool.
    """

    worker: Ints
    memory: Ints
    bound: Floats
    open: WorkerInts  # index in the view of the worker at each place of the list
    slots: WorkerInts  # free slots of the worker at each place
    kv: WorkerFloats  # KV tokens that may still be sent to the worker at each place


class Room(NamedTuple):
    """The answer (see `RoutingWork`), and the room of each worker, for rules that look at all workers for each request."""

    worker: Ints
    memory: Ints
    bound: Floats
    free_slots: WorkerInts  # slots left after the requests that this decision has sent
    kv_free: WorkerFloats  # KV tokens left likewise; inf where only slots limit


@part
def set_room(view: RuleView, work: Room) -> int:
    """Write `work.free_slots` and `work.kv_free` from the view; returns the sum of the free slots of all workers."""
    for g in range(view.free_slots.size):
        work.free_slots[g] = view.free_slots[g]
        work.kv_free[g] = view.kv_free[g]
    return total_free(view)


@part
def has_room(g: int, size: float, work: Room) -> bool:
    """Whether worker g has a free slot and at least `size` free KV tokens, after the requests sent so far."""
    return work.free_slots[g] > 0 and work.kv_free[g] >= size


@part
def list_with_room(size: float, fitting: I8, work: Room) -> int:
    """Write the indices of the workers with room for `size` tokens to `fitting`, int64[G], ascending; returns their number.

    Entries beyond that number mean nothing.
    """
    count = 0
    for g in range(work.free_slots.size):
        fitting[count] = g
        count += has_room(g, size, work)
    return count


@part
def send_to(request: int, g: int, size: float, work: Room) -> None:
    """Answer that a request of `size` tokens goes to worker g, and take its slot and tokens off the room.

    It checks nothing: ask `has_room` first. `request` is the position in the pool, 0 = oldest.
    """
    work.worker[request] = g
    work.free_slots[g] -= 1
    work.kv_free[g] -= size


@part
def list_open(view: RuleView, work: Open) -> int:
    """List the open workers in `work` by index, with their slots and KV tokens from the view; returns their number."""
    count = 0
    for g in range(view.free_slots.size):  # without a branch: nothing predicts which workers have a slot
        free, place = view.free_slots[g], np.uintp(count)  # see `take_out`
        work.open[place] = g
        work.slots[place] = free
        work.kv[place] = view.kv_free[g]
        count += free > 0
    return count


@part
def send(request: int, place: int, size: float, count: int, work: Open) -> int:
    """Send a request of `size` tokens to the worker at a place of the list of `count`; returns the list's new length.

    A worker whose last slot this takes is removed from the list; later places then move forward by one. Columns that a rule
    keeps by itself need `take_out` first. It does not check whether the request fits.
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
    """Remove the entry at a place from one more column of the list of `count` entries; later entries move forward."""
    for j in range(place, count - 1):  # np.uintp: the compiler need not ask whether an index is negative
        column[np.uintp(j)] = column[np.uintp(j + 1)]


@part
def is_unlimited(view: RuleView) -> bool:
    """Whether every worker's `kv_free` is inf, so that every request fits every open worker."""
    limited = 0
    for g in range(view.kv_free.size):
        limited += view.kv_free[g] < np.inf
    return limited == 0


@part
def one_each(level: int, low: int, high: int, i: int, view: RuleView, work: Open) -> int:
    """Send requests i, i+1, ... one each to the workers in low..high-1 with at least `level` free slots, by ascending index.

    Free slots are those of the view. It stops when no request is left. Only the answer `work.worker` is written; the list of
    open workers is not used, and KV memory is not looked at.

    Returns:
        The next request to send: i plus the number sent.
    """
    waiting = work.worker.size
    if waiting - i < high - low:
        for g in range(low, high):
            if i < waiting and view.free_slots[g] >= level:
                work.worker[np.uintp(i)] = g
                i += 1
        return i
    for g in range(low, high):  # without a branch: nothing predicts which workers have a slot
        work.worker[np.uintp(i)] = g
        i += view.free_slots[g] >= level
    if i < waiting:
        work.worker[np.uintp(i)] = HOLD  # written for a worker without a slot
    return i


@part
def most_free(view: RuleView) -> int:
    """The largest number of free slots of one worker in the view."""
    most = view.free_slots[0]
    for g in range(view.free_slots.size):
        most = max(most, view.free_slots[g])
    return most


@part
def total_free(view: RuleView) -> int:
    """Free slots of all workers in the view, before this decision sends anything."""
    slots = 0
    for g in range(view.free_slots.size):
        slots += view.free_slots[g]
    return slots


@part
def list_where_slots_limit(view: RuleView, work: Open) -> int:
    """As `list_open` for fleets where only slots limit, which is faster: returns the number of open workers.

    `work.open` lists them by ascending index. Unlike there, `work.slots` is indexed by worker, not by place, and `work.kv`
    is not set.
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
    """Write the requests of each worker, running or sent and not yet decoding, to int64[G] `requests`; returns the total."""
    total = 0
    for g in range(view.running.size):
        requests[g] = view.running[g] + view.queued[g]
        total += requests[g]
    return total


@part
def count_serving(view: RuleView, requests: I8) -> int:
    """The number of workers with a request or a free slot; others are lost, ejected or drained. `requests`: int64[G]."""
    count = 0
    for g in range(requests.size):
        count += 1 if requests[g] > 0 or view.free_slots[g] > 0 else 0
    return count


@borrowing
def first_with(keys: Ints, key: int) -> int:
    """Position of the oldest request with this key; `keys.size` without one.

    Call it from rules only: compiled, it crashes if Python calls it.

    Args:
        keys: int64[W], keys of the waiting requests, oldest first.
        key: the key to find.
    """
    last = 0  # counted from the newest request: the compiler keeps this scan vectorised, and not one for the first
    for i in range(keys.size):
        last = max(last, keys.size - i if keys[i] == key else 0)
    return keys.size - last


@part
def set_load(view: RuleView, load: F8) -> None:
    """Write each worker's KV tokens, of running requests and of those sent and not yet decoding, to float64[G] `load`."""
    for g in range(view.load.size):
        load[g] = view.load[g] + view.queued_load[g]


@part
def draw_all(dice: np.uint64, draw: int, count: int, view: RuleView, chance: F8) -> None:
    """Write the `draw`-th random number in [0, 1) of each of the oldest `count` requests to `chance`, float64[>= count].

    A number depends on the dice, the request's id and `draw` alone, so it is the same in every call.

    Args:
        dice: state of the seed and the policy's stream, from `draws.head`.
        draw: which number of a request, counted from 0.
    """
    for i in range(count):
        chance[i] = uniform_from(dice, view.waiting_id[i], draw)


@part
def count_overdue(view: RuleView, age_limit: float) -> int:
    """How many of the oldest requests go first, having waited more than `age_limit` times the mean wait.

    They are at most a quarter of the fleet's free slots, rounded down, but at least one is allowed. Requests that a policy
    passes over grow old together; admitted all at once they would undo the balance that passing them over gained.

    Args:
        age_limit: multiple of the mean wait; 0 switches the rule off. Before the first admission no request is overdue.
    """
    if not (age_limit > 0.0 and view.mean_wait_s > 0.0):
        return 0
    most = min(view.since_s.size, max(1, total_free(view) // 4))
    return count_late(most, age_limit * view.mean_wait_s, view)


@part
def count_late(most: int, limit_s: float, view: RuleView) -> int:
    """How many requests, from the oldest on, have waited longer than `limit_s` seconds; at most `most`, itself <= W."""
    late = 0
    while late < most and view.now_s - view.since_s[late] > limit_s:
        late += 1
    return late
