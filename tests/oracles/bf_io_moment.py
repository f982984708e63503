"""One decision of BF-IO as its reference and its exact solver see it: loads, profiles, weights, overdue requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import numpy as np

from evenstep.request import F8, I8
from evenstep.routing.view import RoutingView

#: Gains up to this many tokens are rounding, not progress.
TOLERANCE = 1e-6


def in_order(terms: Iterable[float], begin: float = 0.0) -> float:
    """The sum, from left to right."""
    for term in terms:
        begin += term
    return begin


def in_lanes(terms: F8) -> float:
    """The sum over steps in four lanes, h modulo 4, added in pairs."""
    a, b, c, d = (in_order(terms[lane::4].tolist()) for lane in range(4))
    return (a + b) + (c + d)


def overdue(view: RoutingView, count: int, limit_s: float, most: int | None = None) -> int:
    """How many of the oldest requests have waited longer than that: at most so many, or a quarter of the free slots."""
    if limit_s <= 0:
        return 0
    if most is None:
        most = max(1, int(view.free_slots[view.free_slots > 0].sum()) // 4)
    forced, most = 0, min(count, most)
    while forced < most and view.waited_s[forced] > limit_s:
        forced += 1
    return forced


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The input of one decision: G workers, the W oldest requests, n = H+1 steps.

    Args:
        group: int64[G], groups numbered from 0 in order of appearance.
        free_slots, kv_free: int64[G] and float64[G] of the view.
        load: float64[G, n], projected KV tokens before any admission, queued requests included.
        size, stays: float64[W], KV tokens at admission, steps until the end (inf where unknown).
        profile: float64[W, n], KV tokens of a request h steps after its admission.
        growth, weight: float64[n], tokens a newcomer gains, discount ** h.
        tie: float64[Q], factor of the squared deviation in each group.
        forced: the oldest `forced` requests are overdue.
        count: requests to admit.
        waiting: requests in the view, of which the W oldest are considered.
        reward: value of an admitted token per step; 1 in the paper.
        speed: float64[G], cost of a token on each worker relative to the others; loads are in that measure.
        target, pull: float64[G], each worker is drawn to a load with ``pull * (load - target)^2``.
        kind: int64[W], class of each request, numbered from 0; a slot keeps the class it was first filled with.
        quota: int64[classes], requests of each class that are admitted.
        bonus: float64[W, G], value of a request on a worker beyond its load; shape [0, 0] if unknown.
        worth: float64[W], value of admitting a request at all; 0 in the paper.
    """

    group: I8
    free_slots: I8
    kv_free: F8
    load: F8
    size: F8
    stays: F8
    profile: F8
    growth: F8
    weight: F8
    tie: F8
    forced: int
    count: int
    waiting: int
    reward: float
    speed: F8
    target: F8
    pull: F8
    kind: I8
    quota: I8
    bonus: F8
    worth: F8

    @staticmethod
    def of(view: RoutingView, horizon: int, discount: float, tie_weight: float, window: int, age_limit: float) -> Moment:
        """The moment a view shows; parameters as in `BFIO`."""
        n = max(view.projections.shape[1], 1)
        weight = np.array(list(accumulate([1.0] + [discount] * (n - 1), mul)))
        growth = np.zeros(n)
        known = min(n, view.growth.size)
        growth[:known] = np.where(np.isnan(view.growth[:known]), 0.0, view.growth[:known])
        ahead = view.projections if view.projections.shape[1] else view.load[:, None]
        load = ahead + (view.queued_load[:, None] + view.queued[:, None] * growth)
        first_seen = list(dict.fromkeys(view.group.tolist()))
        group = np.array([first_seen.index(q) for q in view.group.tolist()], np.int64)
        mean = [float(np.cumsum(load[group == q, 0])[-1]) / int((group == q).sum()) for q in range(len(first_seen))]

        waiting = view.waiting_id.size
        free = int(view.free_slots[view.free_slots > 0].sum())
        count = min(waiting, free)
        considered = min(waiting, max(window, count)) if window > 0 else waiting
        forced = overdue(view, count, age_limit * view.mean_wait_s) if age_limit > 0 else 0
        size, steps = view.waiting_load[:considered], view.waiting_steps[:considered]
        stays = np.where(np.isnan(steps), np.inf, steps)
        profile = (size[:, None] + growth) * (np.arange(n) < stays[:, None])
        tie = np.array([tie_weight / max(0.01 * m, 1.0) for m in mean])
        return Moment.of_paper(
            group,
            view.free_slots,
            view.kv_free,
            load,
            size,
            stays,
            profile,
            growth,
            weight,
            tie,
            forced,
            count,
            waiting,
        )

    @staticmethod
    def of_paper(
        group: I8,
        free_slots: I8,
        kv_free: F8,
        load: F8,
        size: F8,
        stays: F8,
        profile: F8,
        growth: F8,
        weight: F8,
        tie: F8,
        forced: int,
        count: int,
        waiting: int,
    ) -> Moment:
        """With nothing beyond the paper: one class, equal workers, no targets, no cached tokens."""
        none = np.zeros(group.size)
        return Moment(
            group,
            free_slots,
            kv_free,
            load,
            size,
            stays,
            profile,
            growth,
            weight,
            tie,
            forced,
            count,
            waiting,
            reward=1.0,
            speed=np.ones(group.size),
            target=none,
            pull=none,
            kind=np.zeros(size.size, np.int64),
            quota=np.array([count]),
            bonus=np.zeros((0, 0)),
            worth=np.zeros(size.size),
        )
