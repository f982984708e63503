"""Shares slots between classes by weight: tracks what each class is owed, and when the debt overrides balance.

A decision with more requests than slots owes each waiting class its share of the admissions; each admission pays one slot.
Shares go by weight; slots that a class does not need go to the others. While no debt, to or from a class, exceeds the slack,
classes are ignored. A class that is owed more is served first. A class that received more waits, unless slots or memory
would stay empty. So shares hold over time, and a single slot may still go to the request that fits best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, part
from evenstep.routing.best.kept import COUNTERS
from evenstep.routing.best.targets import Moment
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.rules import RuleView

#: One slot, as it is kept.
SLOT = 1 << 20
#: A class may be ahead or behind by this many slots, plus one for each group of this many running requests.
SLACK, RUNNING_EACH = 4, 64


class Shares(NamedTuple):
    """Working space: one entry for each class of the pool, numbered by its oldest request."""

    found: Ints  # the class, later its kind (see `set_quotas`)
    demand: Ints  # its waiting requests
    weight: Floats  # its weight
    ideal: Floats  # its share of the slots


@part
def are_shared(weights: Floats, moment: Moment, view: RuleView) -> bool:
    """True if slots are shared by class: weights are given, several classes wait, and requests outnumber slots."""
    if moment.slots == moment.waiting or weights.size == 0:
        return False
    several = False
    for i in range(1, moment.waiting):
        several = several or view.waiting_class[i] != view.waiting_class[0]
    return several


@part
def number_classes(waiting: int, view: RuleView, plan: Plan, shares: Shares) -> int:
    """Number the classes from 0 in the order of their oldest requests, and write each request's to `plan.kind`.

    `shares.found` gets the class of each number, and `shares.demand` its waiting requests. Returns the number of classes.
    """
    classes = 0
    for i in range(waiting):
        kind = -1
        for c in range(classes):
            if shares.found[c] == view.waiting_class[i]:
                kind = c
                break
        if kind < 0:
            kind = classes
            shares.found[kind], shares.demand[kind] = view.waiting_class[i], 0
            classes += 1
        shares.demand[kind] += 1
        plan.kind[plan.rank[i]] = kind
    return classes


@part
def fill_up(slots: int, classes: int, shares: Shares) -> None:
    """Divide `slots` among the classes by weight, each getting at most its demand; written to `shares.ideal`, in slots."""
    left = float(slots)
    for c in range(classes):
        shares.ideal[c] = -1.0
    while True:
        total = 0.0
        for c in range(classes):
            if shares.ideal[c] < 0.0:
                total += shares.weight[c]
        share = left
        for c in range(classes):
            if shares.ideal[c] < 0.0 and shares.demand[c] <= share * shares.weight[c] / total:
                shares.ideal[c] = float(shares.demand[c])
                left -= shares.demand[c]
        if left == share:
            for c in range(classes):
                if shares.ideal[c] < 0.0:
                    shares.ideal[c] = left * shares.weight[c] / total
            return


@part
def let_in(moment: Moment, plan: Plan) -> int:
    """Estimate how many requests of mean waiting size fit the open workers' slots and memory: from 1 to `moment.slots`."""
    fit = 0.0
    for o in range(plan.place.size):
        fit += min(float(plan.free[o]), np.floor(plan.kv[o] / moment.usual))
    return int(max(1.0, min(fit, float(moment.slots))))


@part
def share_out(slots: int, weights: Floats, moment: Moment, view: RuleView, plan: Plan, shares: Shares) -> int:
    """Number the classes (`number_classes`), and divide `slots` among them by weight (`fill_up`); returns their count.

    `plan.kind` and all of `shares` are written. `weights[c]` is the weight of class c; further classes have 1.
    """
    classes = number_classes(moment.waiting, view, plan, shares)
    for c in range(classes):
        is_weighed = 0 <= shares.found[c] < weights.size
        shares.weight[c] = weights[shares.found[c]] if is_weighed else 1.0
    fill_up(slots, classes, shares)
    return classes


@part
def due_to(c: int, slack: int, owed: Ints, shares: Shares) -> int:
    """What class number c is owed, its share of this decision included, in 1/`SLOT` of a slot; below 0: it got too much.

    It is at least ``-2 * slack``, and at most what all its waiting requests and one more need, plus the slack.
    """
    due = int(owed[shares.found[c] % COUNTERS]) + int(shares.ideal[c] * SLOT)
    return min(max(due, -2 * slack), (int(shares.demand[c]) + 1) * SLOT + slack)


@part
def slack_of(moment: Moment) -> int:
    """Largest debt to or from a class that is ignored, in 1/`SLOT` of a slot; it grows with the running requests."""
    return (SLACK + moment.running // RUNNING_EACH) * SLOT


@part
def set_quotas(weights: Floats, moment: Moment, view: RuleView, owed: Ints, plan: Plan, shares: Shares) -> int:
    """Set the kind of each request (`plan.kind`) and the quota of each kind in slots (`plan.quota`); returns how many kinds.

    Kind 0 holds the classes within the slack, which share the slots that the others leave. Each class that is owed more is a
    kind of its own. All classes that received too much are one kind of quota 0. Without shared slots (`are_shared`) all
    requests are one kind. `weights[c]` is the weight of class c; further classes have 1. `owed`, int64[COUNTERS], has the
    debts to classes, in 1/`SLOT` of a slot; it is not changed. `shares` is overwritten.
    """
    plan.quota[0] = moment.slots
    if not are_shared(weights, moment, view):
        return 1
    left, kinds, ahead, slack = let_in(moment, plan), 1, 0, slack_of(moment)
    classes = share_out(left, weights, moment, view, plan, shares)
    for c in range(classes):
        due = due_to(c, slack, owed, shares)
        shares.found[c] = 0  # from here on the kind of the class
        if due > slack:
            given = min(int(shares.demand[c]), (due - slack) // SLOT + 1, left)
            left -= given
            shares.found[c], plan.quota[kinds] = kinds, given
            kinds += 1
        elif due < -slack:
            if ahead == 0:
                ahead, plan.quota[kinds] = kinds, 0
                kinds += 1
            shares.found[c] = ahead
    if kinds > 1:
        plan.quota[0] = left
    for r in range(moment.waiting):
        plan.kind[r] = shares.found[plan.kind[r]]
    return kinds


@part
def pay(weights: Floats, moment: Moment, view: RuleView, worker: Ints, owed: Ints, plan: Plan, shares: Shares) -> None:
    """Update what each class is owed (`owed`) after a decision; changes nothing unless slots are shared (`are_shared`).

    Each waiting class is owed its share of the admitted slots, less one slot for each of its own requests admitted. A class
    whose last waiting request was admitted is owed nothing, but what it received too much still counts. `worker`, int64[W],
    is the answer; `weights` and `owed` are as in `set_quotas`. `plan.kind` and `shares` are overwritten.
    """
    if not are_shared(weights, moment, view):
        return
    admitted, slack = 0, slack_of(moment)
    for i in range(moment.waiting):
        admitted += worker[i] >= 0
    classes = share_out(admitted, weights, moment, view, plan, shares)
    for c in range(classes):
        owed[shares.found[c] % COUNTERS] = due_to(c, slack, owed, shares)
    for i in range(moment.waiting):
        if worker[i] >= 0:
            owed[view.waiting_class[i] % COUNTERS] -= SLOT
    for i in range(moment.waiting):
        at = view.waiting_class[i] % COUNTERS
        if worker[i] >= 0 and owed[at] > 0:
            waits = False
            for j in range(moment.waiting):
                waits = waits or (worker[j] < 0 and view.waiting_class[j] % COUNTERS == at)
            if not waits:
                owed[at] = 0
