"""Our own policy: it leads each worker to a target level, and keeps a useful choice of requests in the pool.

Three facts that a live router knows matter more than a longer horizon:

* A worker is corrected only when a request leaves it. Until then it outgrows workers that are corrected meanwhile, so a
  worker that will be left alone for long is filled less (`targets`).
* A request admitted now is missing from the pool later. A rule that always prefers large requests ends with a pool of
  small ones and no choice left. The level is steered so that the pool keeps the mix of the arrivals (`steer`).
* Expected loads count each running request with its probability to remain, so they weigh how reliable a prediction is.

Everything else, such as the search for the request that fills each slot, is that of BF-IO.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep.errors import InputError
from evenstep.routing.best.memory import is_bound
from evenstep.routing.best.moment import (
    MEMORY,
    OWED,
    has_no_barrier,
    moment_of,
    tries,
)
from evenstep.routing.best.shares import pay
from evenstep.routing.bf_io.reference import decide
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class Best:
    """Balance by expected loads and targets, with a steered pool, ageing, speeds, memory, classes and caches.

    It minimises ``sum_h discount^h * [members * envelope(h)] + sum_g pull_g * (load_g - target_g)^2`` over who is admitted
    and where, filling every slot, less what cached tokens are worth. Loads are time where workers differ in speed.

    Args:
        horizon: H, decode steps looked ahead; loads are expected ones where the predictor has a survival curve.
        discount: weight of a step relative to the one before it; less where a worker is corrected sooner.
        pull: weight of the targets: of a load off its target by one mean request, in requests over the envelope a step.
        correction: mean requests that are expected to leave before a worker counts as corrected.
        steer: mean requests by which the level falls when the pool's requests are half as large as those that arrive.
        starts: starting orders of the search: 1 largest first, 2 also by arrival, 3 also smallest first.
        moves: candidate moves that each search may try for each admitted request; more where many requests are
            admitted at once (see `best.moment.tries`).
        window: only the oldest `window` waiting requests are considered, but never fewer than are admitted; 0 = all.
        age_limit: a request that has waited longer than this multiple of the mean wait is admitted before all others
            (what the mean is while few have waited: `best.moment.whole_wait_s`), and before that a worker makes room
            for one that fits nowhere (`best.room`); one that does not fit into the memory then has a worker kept for it.
            0 = off.
        ageing: what it is worth to admit a request that has waited as long as usual, in mean requests over the envelope
            at every step; it rises with the square of the wait. 0 = nothing.
        recompute: where KV memory limits: what it costs to compute a token anew after an overflow, in output tokens.
            The more it is, the more memory is kept free; 0 keeps what the growth ahead is expected to need (`best.memory`).
        affinity: what a cached token is worth, in tokens of load over one step; 0 looks at no caches. (Prefilling a token
            of a large model takes as long as some thousand resident tokens add to a step.)
        class_weights: share of the slots of classes 0, 1, ... while more wait than fit, relative to each other; classes
            beyond have 1. A class that does not use its share leaves it to the others. Shares hold over time: within what
            `best.shares` allows a class may be ahead or behind, so that the request that fits best can be taken now.
            Empty: classes are not told apart.

    Raises:
        InputError: a value out of range.

    Source: ours. The search, and the imbalance it starts from, are BF-IO's (sec. 4); expected loads are BalanceRoute
    App. C with the whole curve in place of two numbers. What did not pay is told in the docs.
    """

    horizon: int = 34
    discount: float = 0.88
    pull: float = 1.0
    correction: float = 1.0
    steer: float = 0.5
    starts: int = 3
    moves: int = 15
    window: int = 0
    age_limit: float = 18.0
    ageing: float = 0.02
    recompute: float = 0.08
    affinity: float = 100.0
    class_weights: tuple[float, ...] = ()

    #: Projections are expected loads; cached tokens are used; `best.moment` describes the memory.
    expects_loads: ClassVar[bool] = True
    reads_cached: ClassVar[bool] = True
    memory_size: ClassVar[int] = MEMORY
    #: The default predictor: it uses only what a live router knows.
    usual_predictor: ClassVar[str] = "memorised"

    def __post_init__(self) -> None:
        self._require("horizon", self.horizon >= 1, "an integer >= 1")
        self._require("discount", 0 < self.discount <= 1, "a number in (0, 1]")
        self._require("starts", 1 <= self.starts <= 3, "1, 2 or 3")
        self._require("correction", 0 < self.correction < math.inf, "a finite number > 0")
        for field in ("pull", "steer", "moves", "window", "age_limit", "ageing", "recompute", "affinity"):
            self._require(field, 0 <= getattr(self, field) < math.inf, "a finite number >= 0")
        self._require("class_weights", all(0 < w < math.inf for w in self.class_weights), "numbers > 0")

    def _require(self, field: str, holds: bool, expected: str) -> None:
        if not holds:
            raise InputError("best", field, getattr(self, field), expected)

    def route(self, view: RoutingView) -> RoutingDecision:
        """Plain reference of `best_kernel.route_into`, equal in bits."""
        moment, memory = moment_of(self, view)
        if moment.count == 0:
            return RoutingDecision(np.full(moment.waiting, HOLD, np.int64), memory)
        is_in_order = has_no_barrier(moment) or is_bound(moment)
        starts = 0 if is_in_order else self.starts
        worker = decide(moment, starts, tries(self.moves, moment.count), 1)
        pay(self.class_weights, view, moment, worker, memory[OWED:])
        return RoutingDecision(worker, memory)


policy = Best
