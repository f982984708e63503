"""BF-IO(H), with a local search for the best plan.

It searches for the least ``J = sum_h discount^h * sum_groups [members * envelope(h) - sum of loads(h)]`` over which requests
are admitted and where. It fills every slot that can be filled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from evenstep.compiled import Floats, Ints
from evenstep.errors import InputError, check_range
from evenstep.routing.bf_io import exact
from evenstep.routing.bf_io.plan import Plan, cut, plan_room
from evenstep.routing.bf_io.reading import count_open, number_groups, set_requests, set_steps, set_workers
from evenstep.routing.bf_io.solve import Effort, solve
from evenstep.routing.filling import count_overdue
from evenstep.routing.rules import Ruled, RuleView, rule
from evenstep.routing.view import RoutingDecision, RoutingView

#: Times the best plan is fitted to another level, as long as that gains.
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class BFIO(Ruled):
    """BF-IO(H): admits and places requests so that the imbalance of this and the next H steps is small.

    Args:
        horizon: H, decode steps looked ahead; 0 needs no predictor.
        discount: weight of a step relative to the one before it; 1 is the paper, 0.9 halves the load imbalance.
        tie_weight: factor of a squared-deviation term, ``sum_g (L_g - mean)^2 / (1 % of the mean load)`` a step. At 1 a
            worker that is 1 % off its group's mean costs as many tokens as it is off. 0 is the paper. It helps without a
            horizon, and hurts with an undiscounted one.
        starts: starting orders of the search: 1 largest first, 2 also by arrival, 3 also smallest first.
        exact: solve each decision to optimality (HiGHS), which may take seconds each; for small instances and for measuring
            gaps. Digests may differ between versions of HiGHS. A live dispatcher ignores it and searches.
        window: only the oldest `window` waiting requests are considered, but never fewer than are admitted; 0 = all.
        moves: candidate moves each search may try; 0 leaves the greedy fill.
        age_limit: multiple of the mean wait after which a request is overdue; 0 = off, as in the paper. Overdue requests are
            admitted before all others, in at most a quarter of the free slots, but at least one.

    Raises:
        InputError: a value out of range; `exact` together with `tie_weight`.

    Source: BF-IO sec. 4, Algorithm 1; discount, tie-breaker, starts and age bound are ours. Our readings: a newcomer counts
    ``size + growth[h]`` for all h, or until its `waiting_steps` are over where those are known. Growth that is nan (profiles
    differ by request) counts as 0; requests queued at a worker count with their growth. With KV limits that bind, plans that
    admit more win before plans that balance better. Of requests alike in size the oldest is admitted, if no end within the
    horizon is known. The answer is then the optimum with two slots to fill from a larger pool, one group, no KV limit, no
    tie-breaker and no overdue request. With more slots it is a local optimum, unless `moves` end the search.
    """

    horizon: int = 0
    discount: float = 1.0
    tie_weight: float = 0.0
    starts: int = 3
    exact: bool = False
    window: int = 0
    moves: int = 500
    age_limit: float = 30.0

    def __post_init__(self) -> None:
        check_range("bf-io", "an integer >= 0", low=0, horizon=self.horizon)
        check_range("bf-io", "a number in (0, 1]", above=0, high=1, discount=self.discount)
        check_range("bf-io", "a finite number >= 0", low=0, finite=True, tie_weight=self.tie_weight)
        check_range("bf-io", "an integer from 1 to 3", low=1, high=3, starts=self.starts)
        check_range("bf-io", "an integer >= 0", "0 considers the whole pool.", low=0, window=self.window)
        check_range("bf-io", "an integer >= 0", low=0, moves=self.moves)
        check_range("bf-io", "a finite number >= 0", "0 turns ageing off.", low=0, finite=True, age_limit=self.age_limit)
        if self.exact and self.tie_weight != 0:
            raise InputError("bf-io", "tie_weight", self.tie_weight, "0 with exact", "The exact model is linear.")

    @property
    def plain_only(self) -> bool:
        """True if `exact`: simulations then call `route`, because the rule only searches."""
        return self.exact

    def route(self, view: RoutingView) -> RoutingDecision:
        """Decide by the rule, without a bound; with `exact`, return the optimum and its certified bound in KV tokens."""
        found = Ruled.route(self, view)
        if not self.exact:
            return found
        asked = exact.instance(view, self.horizon, self.discount, self.window, self.age_limit)
        if asked.count == 0:
            return found
        worker, window = found.worker.copy(), asked.size.size
        worker[:window], bound = exact.solve(asked, worker[:window])
        return RoutingDecision(worker, found.memory, bound)


class Work(NamedTuple):
    """Working space: the answer (see `RoutingWork`), and the plan."""

    worker: Ints
    memory: Ints
    bound: Floats
    group: Ints  # of each worker, numbered from 0
    speed: Floats  # of each worker, here always 1
    plan: Plan


def room(workers: int, waiting: int, horizon: int, options: Any) -> tuple[object, ...]:
    """Sizes of the arrays of `Work` after `bound`, in order, one for each array in `plan`; a table has (rows, columns)."""
    return (workers, workers, *plan_room(workers, waiting, horizon + 1, 1))


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Set up the plan, search from each starting order, and write the best plan to `work.worker`."""
    free, opened = count_open(view)
    slots = min(view.waiting_load.size, free)
    if slots == 0:
        return
    waiting = view.waiting_load.size
    if options.window > 0:
        waiting = min(waiting, max(options.window, slots))
    plan = cut(work.plan, waiting, opened, number_groups(view, work.group), slots)
    plan.quota[0] = slots
    set_steps(options.discount, view.growth, plan.weight, plan.growth)
    work.speed[:] = 1.0
    set_workers(work.group, work.speed, view.projections, options.tie_weight, view, plan)
    ends_known = set_requests(plan.weight.size, view, plan)
    effort = Effort(options.starts, options.moves, ROUNDS, 1)
    forced = count_overdue(view, options.age_limit)
    solve(effort, forced, plan.quota.size, ends_known, plan, view.cached_tokens, work.worker)


policy = BFIO
