"""Solves a plan: starting orders, searches, levels. BF-IO and `best` share it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenstep.compiled import Ints, ReadTable, borrowing, part
from evenstep.routing.bf_io.fill import ARRIVAL, fill, refill
from evenstep.routing.bf_io.level import fit_best_level
from evenstep.routing.bf_io.pair import best_pair
from evenstep.routing.bf_io.plan import Plan, answer, hits, keep, objective
from evenstep.routing.bf_io.search import search


class Effort(NamedTuple):
    """Limits of `solve`: starting orders, moves per search, refits to other levels, oldest requests that may go first."""

    starts: int  # starting orders; 0 fills in order of arrival, and the search only moves requests between workers
    moves: int  # candidate moves each search may try
    rounds: int  # times the best plan is fitted to another level, as long as that gains
    oldest: int  # the largest that fits of this many oldest waiting requests goes before the starting order; 1 = off


@part
def value_of(filled: int, plan: Plan, cached: ReadTable) -> float:
    """The objective of the plan, less the worth of cached tokens and of the requests in its first `filled` slots.

    `cached` is float64[W, G], prompt tokens by position in the pool and worker of the view.
    """
    value = objective(plan)
    if plan.hit[0] > 0.0:
        for k in range(filled):
            value -= hits(int(plan.request[k]), int(plan.worker[k]), plan, cached)
    for k in range(filled):
        value -= float(plan.worth[plan.request[k]])
    return value


@borrowing  # compiled once for both policies: it is most of what either compiles
def solve(effort: Effort, forced: int, classes: int, tries_all: bool, plan: Plan, cached: ReadTable, worker: Ints) -> None:
    """Search from each starting order, then (not if `tries_all`) from shifted levels; write the best plan to `worker`.

    Plans that fill more slots win, then those of smaller `value_of`. The oldest `forced` requests that fit are admitted
    before all others. `classes` counts the classes with a quota in `plan.quota`. With `tries_all` every waiting request that
    fits is tried in a slot, because more than sizes and ages counts. `cached`, float64[W, G], is read only where `plan.hit`
    is above 0.
    """
    best_value, best_filled, best_pinned, starts = np.inf, -1, 0, max(effort.starts, 1)
    levels_help = effort.starts > 0 and effort.rounds > 0 and effort.moves > 0 and not tries_all
    for attempt in range(starts + effort.rounds):
        if attempt < starts:
            start = attempt if effort.starts > 0 else ARRIVAL
            pinned, filled = fill(start, forced, classes, effort.oldest, plan)
            if effort.starts == 0:
                pinned = filled
        else:
            if attempt == starts:
                levels_help = levels_help and best_filled < plan.size.size
            if not levels_help or not fit_best_level(best_pinned, best_filled, plan):
                break
            pinned, filled = best_pinned, best_filled
        search(pinned, filled, effort.moves, tries_all, plan, cached)
        filled = refill(filled, plan)
        value = value_of(filled, plan, cached)
        if filled > best_filled or (filled == best_filled and value < best_value):
            best_value, best_filled, best_pinned = value, filled, pinned
            keep(filled, plan)
        elif attempt >= starts:
            break
    if levels_help and best_filled == 2 and best_pinned == 0:
        best_pair(plan)
    answer(best_filled, tries_all, plan, worker)
