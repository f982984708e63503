# pyright: basic
"""A_min's batch, compiled: the twin of `learning.batch_of_learned`."""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.scheduling.feasible_kernel import base, put, remaining, sort
from evenstep.scheduling.filling_kernel import FREE, open_batch
from evenstep.scheduling.giving_way_kernel import GROWS, grow, grow_or_give_way, leaving, needed
from evenstep.scheduling.learning import VICTIMS
from evenstep.scheduling.reserving_kernel import admit, believed, marks_and_ahead
from evenstep.scheduling.view import EVICTED, ID, KV_CAPACITY, PICKED, RESIDENT, RUNNING, WAITING
from evenstep.streams import stream_number
from evenstep.streams_kernel import uniform

_VICTIMS = stream_number(VICTIMS)
BOUND, LEAST_KV, LAST = range(3)


@borrowing
def set_keys(rows, running, R, seed, belief, victim, keys):
    """Who gives way first: the smallest; ties by chance."""
    for position in range(R):
        row = running[position]
        if victim == LAST:
            keys[position] = -position
        else:
            size = believed(rows, row, belief) if victim == BOUND else rows[RESIDENT, row]
            keys[position] = size + uniform(seed, _VICTIMS, rows[ID, row], 0)


@borrowing
def cannot_join(limits, rows, running, left, marks, R, row, belief, capacity):
    """Whether a request surely does not fit beside those that go on: even in the first iteration in which one ends."""
    length = believed(rows, row, belief)
    held, many, least = base(limits, rows, row), 1, remaining(limits, rows, row, length)
    for position in range(R):
        if left[marks + position] == GROWS:
            other = running[position]
            held += base(limits, rows, other)
            many += 1
            least = min(least, remaining(limits, rows, other, believed(rows, other, belief)))
    return many > 1 and held + many * least > capacity


@borrowing
def form_learned(
    seed, limits, running, waiting, first, counts, rows, belief, victim, share, left, keys, picked, evicted
):
    """The batch of `learning.batch_of_learned`, written into `picked`, `evicted` and `counts`.

    Args:
        share: of the memory that admissions may fill.
    """
    R, W = counts[RUNNING], counts[WAITING]
    marks, ahead = marks_and_ahead(left)
    open_batch(limits, left, R)
    for position in range(R):
        left[marks + position] = GROWS
    given = 0
    if R > 1 and needed(limits, left, rows, running, marks, R) > left[FREE]:
        set_keys(rows, running, R, seed, belief, victim, keys)
        given = grow_or_give_way(limits, left, rows, running, marks, R, R, keys, picked, given)
    else:
        given = grow(limits, left, rows, running, marks, R, picked, given)
    capacity = int(share * limits[KV_CAPACITY])
    if W > 0 and not cannot_join(limits, rows, running, left, marks, R, waiting[first], belief, capacity):
        count = 0
        for position in range(R):
            row = running[position]
            if left[marks + position] == GROWS:
                count = put(limits, left, ahead, count, rows, row, position, believed(rows, row, belief))
        sort(left, ahead, count)
        given = admit(limits, left, rows, waiting, first, W, R, belief, share, ahead, count, picked, given)
    counts[PICKED], counts[EVICTED] = given, leaving(left, marks, R, evicted)
