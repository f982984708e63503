"""If KV memory limits the slots: the memory `best` keeps free on each worker, and for which requests.

Admitting one more request to a worker gains the tokens that it produces until the next departure, which frees memory. The
price is an overflow: if the reserve is used up first, a request of s tokens is evicted and computed again, at `recompute`
output tokens for each. Between two departures a worker gains a token for every running request and step. If n requests run,
and each still has o tokens to produce, a departure comes every ``o / n`` steps, and a reserve of u tokens lasts ``u / n``
steps. So no departure comes in time with probability ``exp(-u / o)``, and an admission gains ``o / n`` tokens times the rest
of that probability. Gain and price are equal at ``u = o ln(1 + recompute n s / o)``: the memory kept free.

With few requests on a worker some risk pays off, because a reserve large enough is a good part of the memory. With many the
reserve is a small part, and caution is cheap. Caution is also cheap where few requests wait: unused memory then delays few.
So the price is ``recompute (1 + CAUTION n) (1 + CALM / w)``, with w the mean number of requests that wait.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import Ints, part
from evenstep.routing.best.kept import ARRIVED, LEAVING, LOOKS, STAYING, WAITED, octaves
from evenstep.routing.best.targets import Moment, Outlook
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.rules import RuleView

#: Tokens that a request is assumed to produce before the first request has left.
UNKNOWN = 100.0
#: Expected departures are averaged over about this many decisions.
LATEST = 256
#: One in this many open workers is kept for requests that fit nowhere, and at least one.
KEPT_IN = 4
#: Where memory limits the workers of a barrier, the largest that fits of this many oldest waiting requests goes first. Small
#: requests then remain for small gaps; in order of arrival they take every gap, and large ones end the run alone.
PACKED = 16
#: Rise of the price of an overflow with each request that runs.
CAUTION = 0.15
#: With this many requests waiting, the price of an overflow is twice that with infinitely many.
CALM = 50.0
#: The number that waits is averaged over about this many decisions.
LOOKED = 1024
#: Requests that are assumed to wait at first.
MANY = 256
#: Nepers in 1/4096 of an octave.
NEPER = 0.6931471805599453 / 4096.0


@part
def still_to_come(gone: int, view: RuleView, look: Outlook, memory: Ints) -> float:
    """Mean number of tokens, >= 1, that a running request still produces, by expected departures; `UNKNOWN` without any.

    `gone` is the number of requests that have left so far. Once it is above 0, and departures are expected, `LEAVING` and
    `STAYING` in `memory` are updated, so call it once a decision.
    """
    last = look.growth.size - 1
    ahead = look.growth[last] - look.growth[0]
    stays, leaves = 0.0, 0.0
    for g in range(view.load.size):
        mass = view.load[g] + view.running[g] * ahead
        stays += mass
        leaves += max(0.0, mass - view.projections[g, last]) if last > 0 else 0.0
    if gone > 0 and leaves > 0.0:
        memory[LEAVING] += np.int64(leaves)
        memory[STAYING] += np.int64(stays)
        if memory[STAYING] > LATEST * stays:
            memory[LEAVING] //= 2
            memory[STAYING] //= 2
    if memory[LEAVING] <= 0:
        return UNKNOWN
    return max(ahead * (memory[STAYING] / memory[LEAVING] - 0.5), 1.0)


@part
def still_on(g: int, usual: float, view: RuleView, look: Outlook) -> float:
    """Tokens that a request on worker g still produces: the harmonic mean of the worker's own estimate and of `usual`.

    `usual` is the fleet's estimate in tokens, and the answer if the worker runs nothing or growth is 0. The own estimate
    comes from the share of the worker's load expected to leave within the horizon. If its requests are young, hardly any
    leave, but the answer is at most twice `usual`.
    """
    last, running = look.growth.size - 1, view.running[g]
    ahead = look.growth[last] - look.growth[0]
    if running == 0 or ahead <= 0.0:
        return usual
    mass = view.load[g] + running * ahead
    leaves = max(0.0, mass - view.projections[g, last])
    rate = leaves / (ahead * (mass - 0.5 * leaves))
    return 2.0 * usual / (1.0 + rate * usual)


@part
def usually_waiting(waiting: int, memory: Ints) -> float:
    """Update and return the recent mean number of requests that wait at a decision. Call it once a decision.

    `LOOKS` and `WAITED` in `memory` are updated. They start as if `MANY` requests waited.
    """
    if memory[LOOKS] == 0:
        memory[LOOKS], memory[WAITED] = LOOKED, LOOKED * MANY
    memory[LOOKS] += 1
    memory[WAITED] += waiting
    if memory[LOOKS] > LOOKED:
        memory[LOOKS] //= 2
        memory[WAITED] //= 2
    return memory[WAITED] / memory[LOOKS]


@part
def keep_free(recompute: float, moment: Moment, view: RuleView, look: Outlook, memory: Ints, plan: Plan) -> None:
    """Set `plan.kv` of the open workers, KV tokens that may be admitted: free ones less a reserve >= the growth ahead.

    Workers without a memory limit stay as they are. A worker without requests may always take the largest that fits. The
    estimates of `still_to_come` and `usually_waiting` in `memory` are updated, so call it once a decision, after
    `set_workers`.
    """
    more = still_to_come(int(memory[ARRIVED]) - moment.waiting - moment.running, view, look, memory)
    recompute *= 1.0 + CALM / usually_waiting(moment.waiting, memory)
    for o in range(plan.place.size):
        g = plan.place[o]
        free, load = float(view.kv_free[g]), float(view.load[g])
        if free < np.inf:
            there = view.running[g] + view.queued[g]
            here = float(still_on(int(g), more, view, look))
            held = there * moment.request + max(free, moment.request)
            price = recompute * (1.0 + CAUTION * there)
            reserve = here * (octaves(float(1.0 + price * held / here)) * NEPER)
            for h in range(look.growth.size):
                reserve = max(reserve, view.projections[g, h] - load + look.growth[h])
            one = 0.0  # the largest waiting request that fits, if the worker has none
            for i in range(moment.waiting if there == 0 else 0):
                one = max(one, view.waiting_load[i] if view.waiting_load[i] <= free else 0.0)
            plan.kv[o] = max(one, free - reserve)


@part
def keep_for_overdue(limit_s: float, waiting: int, view: RuleView, plan: Plan) -> None:
    """For overdue requests that fit nowhere, keep workers to gather memory: set `plan.kv` to 0 there, so they admit nothing.

    A request among the oldest `waiting` is overdue once it has waited longer than `limit_s` seconds (0 or inf: never). For
    each, oldest first, the open worker with the largest `plan.kv` is kept, unless the request fits there or the worker is
    empty. At most one open worker in `KEPT_IN` is kept, or one in a small fleet. The choice is not stored: the next decision
    chooses again, and finds the same worker if it still has the most memory left. Call it after `keep_free`.
    """
    if not 0.0 < limit_s < np.inf:
        return
    keeps = max(plan.place.size // KEPT_IN, 1)
    for i in range(waiting):
        if keeps == 0 or not view.now_s - view.since_s[i] > limit_s:
            return
        most = 0
        for o in range(1, plan.place.size):
            if plan.kv[o] > plan.kv[most]:
                most = o
        g = plan.place[most]
        if view.waiting_load[i] > plan.kv[most] and view.running[g] + view.queued[g] > 0:
            plan.kv[most] = 0.0
            keeps -= 1


@part
def is_bound(moment: Moment, plan: Plan) -> bool:
    """True if memory limits admissions: `plan.kv` of the open workers holds fewer mean requests than are to be admitted.

    If so, and if workers share a barrier, the policy lets the largest that fits of the `PACKED` oldest requests go first.
    Chosen by size among all, requests that seldom fit would wait forever, and the memory kept for one of them would go to
    another.
    """
    left = 0.0
    for o in range(plan.place.size):
        left += plan.kv[o]
    return left < moment.usual * moment.slots
