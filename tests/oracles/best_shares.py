"""Shares slots between classes by weight: tracks what each class is owed, and when the debt overrides balance.

Every decision owes each waiting class its share of the admissions (water filling by weight: slots a class does not need go
to the others), and every admission pays one. While all classes are within the slack, classes are ignored. A class that is
owed more is served first; a class that received more waits, unless slots or memory would stay empty. So shares hold over
time, and every single slot may still go to the request that fits best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.oracles.bf_io_moment import Moment, in_order

from evenstep.request import I8
from evenstep.routing.view import HOLD, RoutingView

#: One slot, as it is kept.
SLOT = 1 << 20
#: Classes are counted modulo this; two classes with the same remainder share a counter.
COUNTERS = 64
#: A class may be ahead or behind by this many slots, plus one for each group of this many running requests.
SLACK, RUNNING_EACH = 4, 64


def slack_of(view: RoutingView) -> int:
    """How far a class may be ahead or behind, in 1/`SLOT` of a slot."""
    return (SLACK + int(view.running.sum()) // RUNNING_EACH) * SLOT


def are_shared(weights: Sequence[float], view: RoutingView, moment: Moment) -> bool:
    """Whether there are weights and classes, and fewer slots than requests."""
    kinds = view.waiting_class[: moment.size.size]
    return bool(weights) and 0 < moment.count < moment.size.size and bool((kinds != kinds[0]).any())


def let_in(moment: Moment) -> int:
    """How many requests of usual size the slots and the memory of the open workers take; at least 1."""
    usual = in_order(moment.size.tolist()) / moment.size.size
    open_ones = moment.free_slots > 0
    fit = np.minimum(moment.free_slots[open_ones], np.floor(moment.kv_free[open_ones] / usual))
    return int(min(max(fit.sum(), 1.0), moment.count))


def shares_of(
    weights: Sequence[float], view: RoutingView, moment: Moment, count: int
) -> tuple[dict[int, int], list[int], list[float]]:
    """Number of each class in order of its oldest request; by number, how many wait, and its share of `count` admissions."""
    classes = view.waiting_class[: moment.size.size].tolist()
    found = {c: number for number, c in enumerate(dict.fromkeys(classes))}
    demand = np.bincount([found[c] for c in classes]).tolist()
    weight = [weights[c] if 0 <= c < len(weights) else 1.0 for c in found]
    return found, demand, filled(weight, demand, count)


def due_to(owed: int, share: float, demand: int, slack: int) -> int:
    """What a class is owed with its share, within its bounds."""
    return min(max(owed + int(share * SLOT), -2 * slack), (demand + 1) * SLOT + slack)


def quotas(weights: Sequence[float], view: RoutingView, moment: Moment, owed: I8) -> tuple[I8, I8]:
    """Kind of each request, and number of admissions of each kind: 0 = chosen freely.

    Args:
        weights: of classes 0, 1, ...; all further classes have 1. Without weights classes are ignored.
        view, moment: the decision.
        owed: int64[COUNTERS], debts to classes, in 1/`SLOT` of a slot.

    Returns:
        int64[W] and int64[kinds].
    """
    none = np.zeros(moment.size.size, np.int64), np.array([moment.count])
    if not are_shared(weights, view, moment):
        return none
    slack, left = slack_of(view), let_in(moment)
    found, demand, shares = shares_of(weights, view, moment, left)
    kinds, quota = [0] * len(found), [0]
    ahead = 0
    for c, number in found.items():
        due = due_to(int(owed[c % COUNTERS]), shares[number], demand[number], slack)
        if due > slack:
            given = min(demand[number], (due - slack) // SLOT + 1, left)
            left -= given
            kinds[number] = len(quota)
            quota.append(given)
        elif due < -slack:
            if ahead == 0:
                ahead = len(quota)
                quota.append(0)
            kinds[number] = ahead
    if len(quota) == 1:
        return none
    quota[0] = left
    classes = view.waiting_class[: moment.size.size].tolist()
    return np.array([kinds[found[c]] for c in classes], np.int64), np.array(quota)


def filled(weight: Sequence[float], demand: Sequence[int], count: int) -> list[float]:
    """Slots of each class by weight, no class more than it needs."""
    ideal, left = [-1.0] * len(weight), float(count)
    while True:
        total = in_order([w for w, given in zip(weight, ideal, strict=True) if given < 0])
        share = left
        for c, w in enumerate(weight):
            if ideal[c] < 0 and demand[c] <= share * w / total:
                ideal[c] = float(demand[c])
                left -= demand[c]
        if left == share:
            return [given if given >= 0 else left * w / total for w, given in zip(weight, ideal, strict=True)]


def pay(weights: Sequence[float], view: RoutingView, moment: Moment, worker: I8, owed: I8) -> None:
    """Each class is owed its share of the admissions, and each admission pays; a class that waits no more is owed nothing."""
    if not are_shared(weights, view, moment):
        return
    classes = view.waiting_class[: moment.size.size] % COUNTERS
    is_sent = worker[: moment.size.size] != HOLD
    found, demand, shares = shares_of(weights, view, moment, int(is_sent.sum()))
    for c, number in found.items():
        owed[c % COUNTERS] = due_to(int(owed[c % COUNTERS]), shares[number], demand[number], slack_of(view))
    for at in classes[is_sent].tolist():
        owed[at] -= SLOT
    gone = np.setdiff1d(classes, classes[~is_sent])
    owed[gone] = np.minimum(owed[gone], 0)
