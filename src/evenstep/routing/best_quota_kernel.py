# pyright: basic
"""Slots shared by classes, compiled: twin of `best_moment.quotas`, equal in bits."""

from __future__ import annotations

from evenstep.compiled import borrowing
from evenstep.routing.bf_io_plan_kernel import KIND, RANK
from evenstep.routing.view import CLASS
from evenstep.streams import stream_number
from evenstep.streams_kernel import head, uniform_from

_STREAM = stream_number("best")


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
    """Share slots by weight, no class more than it needs; returns what is left for the others, and their weights."""
    left, total = float(count), 0.0
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
            return left, total


@borrowing
def set_quotas(first, considered, count, seed, decision, weights, waiting_i, ranks, quota, ints, floats):
    """Number the classes in `ranks` and set how many requests of each are admitted; how many classes there are.

    Args:
        weights: how many, and the weights of classes 0, 1, ...
        quota: the answer.
        ints, floats: working space of 2 W words each.
    """
    found, demand = ints[:considered], ints[considered : 2 * considered]
    classes = number_classes(first, considered, waiting_i, ranks, found, demand)
    if classes == 1 or count == considered:
        for r in range(considered):
            ranks[KIND, r] = 0
        quota[0] = count
        return 1
    weight, ideal = floats[:considered], floats[considered:]
    for c in range(classes):
        weight[c] = weights[1 + found[c]] if 0 <= found[c] < weights[0] else 1.0
    left, total = fill_up(count, classes, demand, weight, ideal)
    u = uniform_from(head(seed, _STREAM), decision, 0)
    upto, given = 0.0, 0
    for c in range(classes):
        upto += ideal[c] if ideal[c] >= 0.0 else left * weight[c] / total
        edge = count if c == classes - 1 else min(max(int(upto + u), given), count)
        quota[c], given = edge - given, edge
    return classes
