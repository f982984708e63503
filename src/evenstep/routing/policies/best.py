"""Our own policy: leads each worker to a target load, and keeps a useful mix of request sizes in the pool.

Three facts that a live router knows matter more than a longer horizon:

* A worker is corrected only when a request leaves it. Until then it outgrows workers that are corrected meanwhile, so a
  worker that will be left alone for long is filled less (`targets`).
* A request admitted now is missing from the pool later. A rule that always prefers large requests ends with a pool of small
  ones and no choice left. So targets are steered to keep the pool's mix of sizes like that of the arrivals (`steer`).
* Expected loads count each running request with its probability to remain, so they weigh how reliable a prediction is.

The search for the request that fills each slot is that of BF-IO.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, part
from evenstep.errors import InputError, check_range
from evenstep.routing.best import targets
from evenstep.routing.best.kept import MEMORY, OWED, rush_s, steered, take_note, usual_wait_s, whole_wait_s
from evenstep.routing.best.memory import PACKED, is_bound, keep_for_overdue, keep_free
from evenstep.routing.best.room import make_room
from evenstep.routing.best.shares import Shares, pay, set_quotas
from evenstep.routing.best.targets import Moment, Outlook
from evenstep.routing.bf_io.plan import Plan, cut, plan_room
from evenstep.routing.bf_io.reading import count_open, number_groups, set_requests, set_workers
from evenstep.routing.bf_io.solve import Effort, solve
from evenstep.routing.filling import count_late
from evenstep.routing.rules import Ruled, RuleView, rule

#: Overdue requests take at most one slot of this many, and at least one: `ageing` has favoured them long before.
OVERDUE = 16
#: Times the best plan is fitted to another level, as long as that gains.
ROUNDS = 1


@dataclass(frozen=True, slots=True)
class Best(Ruled):
    """Balance by expected loads and targets, with a steered pool, ageing, speeds, memory, classes and caches.

    It seeks the least ``sum_h discount^h * [members * envelope(h)] + sum_g pull_g * (load_g - target_g)^2``, less the worth
    of waits and cached tokens, by choice of requests and workers, filling all slots if memory allows. Loads are time if
    speeds differ. In a flood of admissions (`best.targets.is_flood`) it seeks the least imbalance of BF-IO, and targets only
    break ties.

    Args:
        horizon: H, decode steps looked ahead; loads are expected ones where the predictor has a survival curve.
        discount: weight of a step relative to the one before it; less where workers are corrected sooner (see
            `best.targets.look_ahead` and `fade`).
        pull: weight of the targets: of a load off its target by one mean request, in requests over the envelope a step.
        correction: mean requests that are expected to leave before a worker counts as corrected.
        steer: mean requests by which the level falls at first when the pool's requests are half as large as arrivals
            (`best.kept.steered`).
        starts: starting orders of the search: 1 largest first, 2 also by arrival, 3 also smallest first. Without effect
            where KV memory limits (`best.memory.is_bound`) or each worker is its own group.
        moves: candidate moves that each search may try for each admitted request; more where many requests are admitted at
            once (see `best.targets.tries`).
        window: only the oldest `window` waiting requests are considered, but never fewer than are admitted; 0 = all.
        age_limit: multiple of the mean wait (`best.kept.whole_wait_s`) after which a request is overdue; 0 = off. Overdue
            requests are admitted before all others, in at most a 16th of the free slots, but at least one. Before that, a
            worker makes room for a request that fits nowhere (`best.room`). If it still fits no worker's memory, a worker is
            kept for it.
        ageing: value of admitting a request that has waited as long as usual, in mean requests over the envelope at every
            step. It rises with the square of the wait. 0 = no value.
        recompute: where KV memory limits: the cost of computing a token anew after an overflow, in output tokens, on a
            worker with few requests while many wait. It rises with the number that runs, and falls with the number that
            waits (`best.memory`). The higher it is, the more memory is kept free; 0 keeps what the growth ahead is expected
            to need.
        affinity: value of a cached token, in tokens of load over one step; 0 ignores caches. (Prefilling a token of a large
            model takes as long as some thousand resident tokens add to a step.)
        class_weights: share of the slots of classes 0, 1, ... while more wait than fit, relative to each other; further
            classes have 1. A class that does not use its share leaves it to the others. Shares hold over time: a class may
            be ahead or behind a little (`best.shares`), so that the request that fits best can be taken now. Empty: classes
            are ignored.

    Raises:
        InputError: a value out of range.

    Source: ours. The search, and the imbalance it starts from, are BF-IO's (sec. 4); expected loads are BalanceRoute App. C
    with the whole curve in place of two numbers. ``docs/explanation/our-policy.md`` lists what did not help.
    """

    horizon: int = 34
    discount: float = 0.88
    pull: float = 0.5
    correction: float = 1.0
    steer: float = 0.5
    starts: int = 3
    moves: int = 15
    window: int = 0
    age_limit: float = 18.0
    ageing: float = 0.02
    recompute: float = 0.038
    affinity: float = 100.0
    class_weights: tuple[float, ...] = ()

    #: Projections are expected loads; cached tokens are used; `best.kept` describes the memory.
    expects_loads: ClassVar[bool] = True
    reads_cached: ClassVar[bool] = True
    memory_size: ClassVar[int] = MEMORY
    #: The default predictor: it uses only what a live router knows.
    usual_predictor: ClassVar[str] = "memorised"

    def __post_init__(self) -> None:
        check_range("best", "an integer >= 1", low=1, horizon=self.horizon)
        check_range("best", "a number in (0, 1]", above=0, high=1, discount=self.discount)
        check_range("best", "an integer from 1 to 3", low=1, high=3, starts=self.starts)
        check_range("best", "a finite number > 0", above=0, finite=True, correction=self.correction)
        check_range("best", "an integer >= 0", low=0, moves=self.moves, window=self.window)
        for field in ("pull", "steer", "age_limit", "ageing", "recompute", "affinity"):
            check_range("best", "a finite number >= 0", low=0, finite=True, **{field: getattr(self, field)})
        if not all(0 < weight < math.inf for weight in self.class_weights):
            raise InputError("best", "class_weights", self.class_weights, "numbers > 0")


class Work(NamedTuple):
    """Working space: the answer, the memory of `best.kept`, the outlook of workers, the plan, and the pool's classes."""

    worker: Ints
    memory: Ints
    bound: Floats
    look: Outlook
    plan: Plan
    shares: Shares


def room(workers: int, waiting: int, horizon: int, options: Any) -> tuple[object, ...]:
    """Sizes of the arrays of `Work` after `bound`, in order, one for each array in a part; a table has (rows, columns)."""
    G, W, H, n = workers, waiting, horizon, 0
    for step in targets.LOOKED_AT:
        n += step <= H
    look = (H + 1, H + 1, (G, n), G, G, G, G, G, G)
    return look + plan_room(G, W, n, W + 1) + (W, W, W, W)


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Update the memory, set the workers' targets, reserve memory, and write the best plan found to `work.worker`.

    Without a waiting request or a free slot it does nothing.
    """
    free, opened = count_open(view)
    slots = min(view.waiting_load.size, free)
    if slots == 0:
        return
    look, memory = work.look, work.memory
    moment = moment_of(slots, free, view, options, memory)
    plan = cut(work.plan, moment.waiting, opened, number_groups(view, look.group), slots)
    lead(moment, view, options, memory, look, plan)
    keep_free(options.recompute, moment, view, look, memory, plan)
    keep_for_overdue(moment.limit_s, moment.waiting, view, plan)
    set_requests(look.weight.size, view, plan)
    targets.set_worth(options.ageing, moment, view, plan)
    targets.stand(view, look)
    make_room(moment, view, look, plan)
    kinds = set_quotas(options.class_weights, moment, view, memory[OWED:], plan, work.shares)

    most = min(slots, max(1, free // OVERDUE))
    forced = count_late(most, moment.limit_s, view) if moment.limit_s > 0.0 else 0
    is_alone, starts, oldest = targets.has_no_barrier(view, plan), options.starts, 1
    if is_alone or is_bound(moment, plan):
        starts, oldest = 0, 1 if is_alone else PACKED
    tries_all = targets.set_ends(plan) or kinds > 1 or plan.hit[0] > 0.0
    effort = Effort(starts, targets.tries(options.moves, slots), ROUNDS, oldest)
    solve(effort, forced, kinds, tries_all, plan, view.cached_tokens, work.worker)
    pay(options.class_weights, moment, view, work.worker, memory[OWED:], plan, work.shares)


@part
def moment_of(slots: int, free: int, view: RuleView, options: Any, memory: Ints) -> Moment:
    """Compute the numbers of this decision, and count arrivals and admissions in `memory`. Call it once a decision.

    A request that arrives now waits until the requests left before it are admitted. While a pool has just formed, or grows,
    the mean wait of past requests is lower than that. So `usual_s` is at least that wait. `limit_s` is a multiple of a mean
    wait that is at least half of it, as in a pool that has grown evenly.
    """
    waiting = view.waiting_load.size
    if options.window > 0:
        waiting = min(waiting, max(options.window, slots))
    each_s = rush_s(waiting, slots, view.now_s, memory)
    take_note(waiting, view, memory)
    running, tokens, total, square = 0, 0.0, 0.0, 0.0
    for g in range(view.load.size):
        running += view.running[g]
        tokens += view.load[g]
    for i in range(waiting):
        size = view.waiting_load[i]
        tokens += size
        total += size
        square += size * size
    usual = total / waiting
    ahead_s = (waiting - slots) * each_s
    usual_s = max(usual_wait_s(view.mean_wait_s, waiting, running, memory), ahead_s)
    whole_s = max(whole_wait_s(view.mean_wait_s, waiting, running, memory), 0.5 * ahead_s)
    return Moment(
        waiting,
        slots,
        free,
        running,
        request=max(tokens / (running + waiting), 1.0),
        usual=usual,
        spread=np.sqrt(max(0.0, square / waiting - usual * usual)),
        each_s=each_s,
        usual_s=usual_s,
        limit_s=options.age_limit * whole_s if options.age_limit > 0.0 else 0.0,
    )


@part
def lead(moment: Moment, view: RuleView, options: Any, memory: Ints, look: Outlook, plan: Plan) -> None:
    """Set up the plan: step weights, loads ahead, targets of open workers, worth of cached tokens. Updates `memory`."""
    targets.look_ahead(options.discount, moment.request, view, look, plan)
    targets.set_speeds(view, look)
    set_workers(look.group, look.speed, look.ahead, 0.0, view, plan)
    targets.set_rise(options.correction, moment.request, view, look, plan)
    targets.fade(options.correction, moment, view, look, plan)
    targets.set_levels(moment.request * (moment.slots / moment.free), view, look, plan)
    offset = steered(options.steer, moment.waiting, moment.slots, moment.running, view, memory)
    even = targets.evening(moment, view, plan)
    targets.set_targets(options, offset * moment.request, even, moment, view, look, plan)
    plan.hit[:] = max(even, 1.0) * options.affinity if view.cached_tokens.shape[0] > 0 else 0.0


policy = Best
