"""If KV memory limits the slots: the memory `best` keeps free on each worker, and for which requests.

Admitting one more request to a worker gains the tokens that it produces until the next departure, which frees memory. The
price is an overflow: if the reserve is used up first, a request of s tokens goes back and is computed again, at `recompute`
output tokens for each. Between two departures a worker gains a token for every running request and step. If n requests
run, and each still has o tokens to produce, a departure comes every ``o / n`` steps, and a reserve of u tokens lasts
``u / n`` steps. So no departure comes in time with chance ``exp(-u / o)``, and an admission gains ``o / n`` tokens times the
rest of that chance. Gain and price are equal at ``u = o ln(1 + recompute n s / o)``: the memory kept free. The price rises with
the number that run, and falls with the mean number w that wait: ``recompute (1 + CAUTION n) (1 + CALM / w)``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from tests.oracles.bf_io_moment import Moment, in_order

from evenstep.request import F8, I8
from evenstep.routing.view import RoutingView

if TYPE_CHECKING:
    from evenstep.routing.policies.best import Best

#: Tokens a request is thought to produce while none has left.
UNKNOWN = 100.0
#: Expected departures are averaged over about this many decisions.
LATEST = 256
#: One open worker in so many is kept for requests that fit nowhere, and at least one.
KEPT_IN = 4
#: Where memory limits the workers of a barrier, the largest that fits of so many, the oldest that wait, goes first.
PACKED = 16
#: Rise of the price of an overflow with each request that runs.
CAUTION = 0.15
#: With so many requests waiting, the price of an overflow is twice that with endlessly many.
CALM = 50.0
#: The number that waits is averaged over about this many decisions.
LOOKED = 1024
#: The number that is thought to wait at first.
MANY = 256
#: Nepers in 1/4096 of an octave.
NEPER = 0.6931471805599453 / 4096.0


def octaves(tokens: float) -> int:
    """log2 of a size in 1/4096, linear within an octave: the bits of a float64 in order."""
    return (int(np.float64(max(tokens, 1.0)).view(np.int64)) >> 40) - (1023 << 12)


def still_to_come(view: RoutingView, growth: F8, leaving: I8, gone: int) -> float:
    """Mean number of tokens that a running request still produces, derived from the expected departures.

    Args:
        growth: float64[n], tokens a request gains by each step.
        leaving: int64[2], over the latest decisions: KV tokens that were expected to leave within n steps, and all KV
            tokens; updated.
        gone: number of requests that have left so far.
    """
    ahead, stays, leaves = float(growth[-1] - growth[0]), 0.0, 0.0
    for g in range(view.load.size):
        mass = float(view.load[g]) + int(view.running[g]) * ahead
        stays += mass
        leaves += max(0.0, mass - float(view.projections[g, growth.size - 1])) if growth.size > 1 else 0.0
    if gone > 0 and leaves > 0.0:
        leaving += np.array([int(leaves), int(stays)])
        if leaving[1] > LATEST * stays:
            leaving //= 2
    if leaving[0] <= 0:
        return UNKNOWN
    return max(ahead * (int(leaving[1]) / int(leaving[0]) - 0.5), 1.0)


def still_on(view: RoutingView, growth: F8, g: int, usual: float) -> float:
    """Tokens that a request on worker g still produces: the mean of two rates, the worker's own and the `usual` one.

    The worker's own rate is the share of its load that is expected to leave. Where its requests are young, hardly any leaves
    within the horizon, and the usual rate keeps the answer below twice the usual.
    """
    ahead, running = float(growth[-1] - growth[0]), int(view.running[g])
    if running == 0 or ahead <= 0.0:
        return usual
    mass = float(view.load[g]) + running * ahead
    leaves = max(0.0, mass - float(view.projections[g, growth.size - 1]))
    rate = leaves / (ahead * (mass - 0.5 * leaves))
    return 2.0 * usual / (1.0 + rate * usual)


def usually_waiting(waited: I8, waiting: int) -> float:
    """Mean number of requests that wait at a decision.

    Args:
        waited: int64[2], decisions, and the requests that waited at them; updated.
    """
    if waited[0] == 0:
        waited[:] = LOOKED, LOOKED * MANY
    waited += np.array([1, waiting])
    if waited[0] > LOOKED:
        waited //= 2
    return int(waited[1]) / int(waited[0])


def memory_left(policy: Best, view: RoutingView, moment: Moment, kept: I8, gone: int, request: float, limit_s: float) -> F8:
    """float64[G], KV tokens that may be admitted on each worker; inf where only slots limit.

    Args:
        kept: int64[4], `leaving` of `still_to_come`, then `waited` of `usually_waiting`.
        gone: requests that have left so far.
        request: mean KV tokens of those that run or wait.
        limit_s: wait after which a request that fits nowhere has a worker kept for it; 0 or inf = never.
    """
    left = np.array(view.kv_free)
    more = still_to_come(view, moment.growth, kept[:2], gone)
    calm = 1.0 + CALM / usually_waiting(kept[2:], moment.size.size)
    for g in range(left.size):
        if left[g] < np.inf:
            there, free = int(view.running[g] + view.queued[g]), float(left[g])
            load = float(view.load[g])
            here = still_on(view, moment.growth, g, more)
            held = there * request + max(free, request)
            price = policy.recompute * calm * (1.0 + CAUTION * there)
            reserve = here * (octaves(1.0 + price * held / here) * NEPER)
            for ahead, growth in zip(view.projections[g].tolist(), moment.growth.tolist(), strict=True):
                reserve = max(reserve, ahead - load + growth)
            sizes = moment.size[moment.size <= free] if there == 0 else moment.size[:0]
            left[g] = max(float(sizes.max()) if sizes.size else 0.0, free - reserve)
    keep_for_overdue(view, moment, left, limit_s)
    return left


def keep_for_overdue(view: RoutingView, moment: Moment, left: F8, limit_s: float) -> None:
    """Nothing is admitted on a worker that gathers memory for an overdue request that fits nowhere.

    It is always the one with most memory left, so the next decision, which knows nothing of this one, keeps the same. A
    worker that runs nothing has nothing to gather: it is never kept.
    """
    if not 0 < limit_s < math.inf:
        return
    opened = np.flatnonzero(view.free_slots > 0).tolist()
    keeps = max(len(opened) // KEPT_IN, 1)
    for size, waited in zip(moment.size.tolist(), view.waited_s[: moment.size.size].tolist(), strict=True):
        if keeps == 0 or not waited > limit_s:
            return
        most = max(opened, key=lambda g: left[g])
        if size > left[most] and view.running[most] + view.queued[most] > 0:
            left[most] = 0.0
            keeps -= 1


def is_bound(moment: Moment) -> bool:
    """Whether memory, not slots, limits admissions: usual requests do not fill the slots.

    Memory then evens out the loads, and the largest that fits of the oldest goes first (`PACKED`). Chosen by size among
    all, requests that seldom fit would wait forever, and the memory kept for one of them would go to another.
    """
    usual = in_order(moment.size.tolist()) / moment.size.size
    return in_order(moment.kv_free[moment.free_slots > 0].tolist()) < usual * moment.count
