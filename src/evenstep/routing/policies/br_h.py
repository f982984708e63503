"""BR-H: BalanceRoute with a horizon of predicted loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from evenstep.compiled import part
from evenstep.errors import check_range, check_range_if_given
from evenstep.routing.balance_route.assign import ENUMERATED, MOST, STAGE_TWO, Settings, decide
from evenstep.routing.balance_route.assign import AssignWork as Work
from evenstep.routing.filling import count_overdue
from evenstep.routing.rules import Ruled, RuleView, rule


@dataclass(frozen=True, slots=True)
class BRH(Ruled):
    """BalanceRoute with a horizon: the subset of waiting requests that fills each worker up to the envelope ahead.

    Defaults are the paper's, except `age_limit` (paper mode: ``age_limit=0``). A newcomer counts with its prompt at every
    step ahead (sec. 4: "a constant of additional load over the horizon"), where `bf-io` lets it grow.

    Args:
        horizon: H, decode steps looked ahead, >= 0.
        discount: gamma, weight of a step relative to the one before it, in (0, 1].
        penalty: beta, cost of a token over the envelope a step, >= 0; None = workers of the group (the paper's).
        reward: alpha, value of a token below the envelope, > 0.
        score: reading of the paper's eq. 2: ``marginal`` = reward and penalty at each step, ``single`` = one reward.
        stage_two_below: U_th, free slots down to which stage 1 admits one request at a time; None = workers.
        candidates: K, requests a subset is chosen from; 1..16, or 1..32 with ``solver=bitset``.
        pick: candidates are the largest (``size``, the paper's) or those around the worker's best total (``fit``).
        order: workers by (free slots, margin), the paper's, where stage 1 takes smaller load for margin; or by (margin, free
            slots).
        solver: ``enumerate`` all subsets, or reachable sums in a ``bitset`` (whole sizes; else at most 16 are enumerated).
        age_limit: multiple of the mean wait after which a request is overdue; 0 = off. Overdue requests are placed first,
            one by one, each at the worker of largest score, in at most a quarter of the free slots, but at least one.

    Raises:
        InputError: an option out of range.

    Source: BalanceRoute sec. 4, Alg. 3, App. D.4; ageing is ours.
    """

    where: ClassVar[str] = "br-h"  #: the policy's name in errors

    horizon: int = 40
    discount: float = 0.9
    penalty: float | None = None
    reward: float = 1.0
    score: Literal["marginal", "single"] = "marginal"
    stage_two_below: int | None = None
    candidates: int = 8
    pick: Literal["size", "fit"] = "size"
    order: Literal["free-slots", "margin"] = "free-slots"
    solver: Literal["enumerate", "bitset"] = "enumerate"
    age_limit: float = 30.0

    def __post_init__(self) -> None:
        where = self.where
        check_range(where, "an integer >= 0", low=0, horizon=self.horizon)
        most, hint = (ENUMERATED, f"solver=bitset takes up to {MOST}.") if self.solver == "enumerate" else (MOST, "")
        expected = "an integer >= 0, or null for the number of workers"
        check_range_if_given(where, expected, low=0, stage_two_below=self.stage_two_below)
        check_range(where, f"an integer from 1 to {most}", hint, low=1, high=most, candidates=self.candidates)
        check_range(where, "a finite number >= 0", "0 switches ageing off.", low=0, finite=True, age_limit=self.age_limit)
        check_range(where, "a number in (0, 1]", above=0, high=1, discount=self.discount)
        expected = "a finite number >= 0, or null for the group's size"
        check_range_if_given(where, expected, low=0, finite=True, penalty=self.penalty)
        check_range(where, "a finite number > 0", above=0, finite=True, reward=self.reward)


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Place overdue requests one by one; then run the two stages for the others. The answer is `work.worker`."""
    late = count_overdue(view, options.age_limit)
    decide(STAGE_TWO, late, options.discount, settings_of(options, options.order_margin), view, work)


@part
def settings_of(options: Any, ties_by_margin: bool) -> Settings:
    """Convert the policy's options (`compiled.options_of`) to the settings of the stages.

    By the marginal reading, `reward` counts at each step of the horizon: it is multiplied by the sum of the discounts.
    """
    steps, weight = 1.0, 1.0
    if options.score_marginal:
        for _ in range(options.horizon):
            weight *= options.discount
            steps += weight
    return Settings(
        reward=options.reward * steps,
        penalty=options.penalty,
        threshold=options.stage_two_below,
        candidates=options.candidates,
        fit=options.pick_fit,
        margin_first=options.order_margin,
        bits=options.solver_bitset,
        ties_by_margin=ties_by_margin,
    )


policy = BRH
