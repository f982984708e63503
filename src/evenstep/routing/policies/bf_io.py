"""BF-IO(H): admit and place so that the imbalance of this and the next H steps is least.

The answer minimises ``J = sum_h discount^h * sum_groups [members * envelope(h) - sum of loads(h)]`` over which requests
are admitted and where, filling every slot that can be filled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenstep.errors import InputError
from evenstep.routing.bf_io.exact import Instance, solve
from evenstep.routing.bf_io.moment import Moment
from evenstep.routing.bf_io.reference import decide
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class BFIO:
    """BF-IO(H): which requests are admitted and where, by the imbalance of this and the next H steps.

    Args:
        horizon: H, decode steps looked ahead; 0 needs no predictor.
        discount: weight of a step relative to the one before it; 1 is the paper, 0.9 halves the idle share.
        tie_weight: factor of a squared-deviation term, ``sum_g (L_g - mean)^2 / (1 % of the mean load)`` a step: at 1 a
            worker that is 1 % off its group's mean costs as many tokens as it is off. 0 is the paper. Helps without a
            horizon, hurts with an undiscounted one.
        starts: starting orders of the search: 1 largest first, 2 also by arrival, 3 also smallest first.
        exact: solve each decision to optimality (HiGHS); for small instances and for measuring gaps. Outside digests.
        window: only the oldest `window` waiting requests are considered, but never fewer than are admitted; 0 = all.
        moves: candidate moves each search may try; 0 leaves the greedy fill.
        age_limit: a request that has waited longer than this multiple of the mean wait is admitted before all others,
            its worker chosen by the objective; 0 = off, as in the paper.

    Raises:
        InputError: a value out of range; `exact` together with `tie_weight`.

    Source: BF-IO sec. 4, Algorithm 1; discount, tie-breaker, starts and ageing bound are ours. Our readings: a
    newcomer counts ``size + growth[h]`` for all h, or until its `waiting_steps` are over where those are known; growth
    that is nan (profiles differ by request) counts as none; requests queued at a worker count with their growth; with
    KV limits that bind, plans that admit more win before plans that balance better; of requests alike in size the
    oldest is admitted. With two slots to fill from a larger pool, no tie-breaker, nobody overdue and no request's end
    within the horizon the answer is the optimum; with more it is a local one.
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
        self._require("horizon", self.horizon >= 0, "an integer >= 0")
        self._require("discount", 0 < self.discount <= 1, "a number in (0, 1]")
        self._require("tie_weight", 0 <= self.tie_weight < math.inf, "a finite number >= 0")
        self._require("starts", 1 <= self.starts <= 3, "1, 2 or 3")
        self._require("window", self.window >= 0, "an integer >= 0", "0 considers the whole pool.")
        self._require("moves", self.moves >= 0, "an integer >= 0")
        self._require(
            "age_limit", 0 <= self.age_limit < math.inf, "a finite number >= 0", "0 turns ageing off."
        )
        if self.exact:
            self._require("tie_weight", self.tie_weight == 0, "0 with exact", "The exact model is linear.")

    def _require(self, field: str, holds: bool, expected: str, hint: str = "") -> None:
        if not holds:
            raise InputError("bf-io", field, getattr(self, field), expected, hint)

    def route(self, view: RoutingView) -> RoutingDecision:
        """Plain reference of `bf_io_kernel.route_into`, equal in bits; or the optimum with its bound if `exact`."""
        moment = Moment.of(view, self.horizon, self.discount, self.tie_weight, self.window, self.age_limit)
        worker = decide(moment, self.starts, self.moves)
        if not self.exact or moment.count == 0:
            return RoutingDecision(worker)
        best, bound = solve(instance(moment, view), worker[: moment.size.size])
        worker[: moment.size.size] = best
        return RoutingDecision(worker, bound=bound)


def instance(moment: Moment, view: RoutingView) -> Instance:
    """The same decision as the exact solver needs it."""
    return Instance(
        moment.group, view.free_slots, view.kv_free, moment.load, moment.profile, moment.size, moment.weight,
        moment.forced, moment.count,
    )  # fmt: skip


policy = BFIO
