# pyright: basic
"""Slots shared by classes, compiled: twin of `best.shares`, equal in bits."""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.routing.best.shares import COUNTERS, RUNNING_EACH, SLACK, SLOT
from evenstep.routing.bf_io.plan import KIND, RANK
from evenstep.routing.view import CLASS


@borrowing
def are_shared(first, considered, count, weights, waiting_i):
    """Whether there are weights and classes, and fewer slots than requests."""
    if count == considered or weights[0] == 0.0:
        return False
    several = False
    for i in range(first + 1, first + considered):
        several = several or waiting_i[CLASS, i] != waiting_i[CLASS, first]
    return several


@borrowing
def number_classes(first, considered, waiting_i, ranks, found, demand):
    """Number the classes from 0 in order of age and count their requests; how many classes there are."""
    classes = 0
    for i in range(considered):
        kind = -1
        for c in range(classes):
            if found[c] == waiting_i[CLASS, first + i]:
                kind = c
                break
        if kind < 0:
            kind = classes
            found[kind], demand[kind] = waiting_i[CLASS, first + i], 0
            classes += 1
        demand[kind] += 1
        ranks[KIND, ranks[RANK, i]] = kind
    return classes


@borrowing
def fill_up(count, classes, demand, weight, ideal):
    """Slots of each class by weight, no class more than it needs."""
    left = float(count)
    for c in range(classes):
        ideal[c] = -1.0
    while True:
        total = 0.0
        for c in range(classes):
            if ideal[c] < 0.0:
                total += weight[c]
        share = left
        for c in range(classes):
            if ideal[c] < 0.0 and demand[c] <= share * weight[c] / total:
                ideal[c] = float(demand[c])
                left -= demand[c]
        if left == share:
            for c in range(classes):
                if ideal[c] < 0.0:
                    ideal[c] = left * weight[c] / total
            return


@borrowing
def set_quotas(first, considered, count, running, weights, owed, waiting_i, ranks, quota, ints, floats):
    """Set the kinds in `ranks` and how many requests of each kind are admitted; how many kinds there are.

    Args:
        weights: how many, and the weights of classes 0, 1, ...
        owed: int64[COUNTERS], what classes are owed; brought up to date.
        quota: the answer, W + 1 words.
        ints, floats: working space of 2 W words each.
    """
    quota[0] = count
    if not are_shared(first, considered, count, weights, waiting_i):
        return 1
    found, demand = ints[:considered], ints[considered : 2 * considered]
    classes = number_classes(first, considered, waiting_i, ranks, found, demand)
    weight, ideal = floats[:considered], floats[considered : 2 * considered]
    for c in range(classes):
        weight[c] = weights[1 + found[c]] if 0 <= found[c] < weights[0] else 1.0
    fill_up(count, classes, demand, weight, ideal)
    slack = (SLACK + running // RUNNING_EACH) * SLOT
    left, kinds, ahead = count, 1, 0
    for c in range(classes):
        at = found[c] % COUNTERS
        due = owed[at] + int(ideal[c] * SLOT)
        owed[at] = due = min(max(due, -2 * slack), (demand[c] + 1) * SLOT + slack)
        found[c] = 0  # from here on the kind of the class
        if due > slack:
            given = min(demand[c], (due - slack) // SLOT + 1, left)
            left -= given
            found[c], quota[kinds] = kinds, given
            kinds += 1
        elif due < -slack:
            if ahead == 0:
                ahead, quota[kinds] = kinds, 0
                kinds += 1
            found[c] = ahead
    quota[0] = left
    for r in range(considered):
        ranks[KIND, r] = found[ranks[KIND, r]]
    return kinds


@borrowing
def pay(first, considered, count, weights, waiting_i, worker, owed):
    """Every admission pays its class's counter; a class that does not wait any more is owed nothing."""
    if not are_shared(first, considered, count, weights, waiting_i):
        return
    for i in range(considered):
        if worker[i] >= 0:
            owed[waiting_i[CLASS, first + i] % COUNTERS] -= SLOT
    for i in range(considered):
        at = waiting_i[CLASS, first + i] % COUNTERS
        if worker[i] >= 0 and owed[at] > 0:
            waits = False
            for j in range(considered):
                waits = waits or (worker[j] < 0 and waiting_i[CLASS, first + j] % COUNTERS == at)
            if not waits:
                owed[at] = 0
