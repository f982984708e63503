"""BR-H: BalanceRoute with a horizon of predicted loads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstep.errors import InputError
from evenstep.routing.balance_route.assign import Rule, discounts, route
from evenstep.routing.balance_route.f_score import ENUMERATED
from evenstep.routing.filling import check_age_limit
from evenstep.routing.view import RoutingDecision, RoutingView


@dataclass(frozen=True, slots=True)
class BRH:
    """BalanceRoute with a horizon: the subset of waiting requests that fills each worker up to the envelope ahead.

    Defaults are the paper's, but for `age_limit` (paper mode: ``age_limit=0``). A newcomer counts with its prompt at every
    step ahead (sec. 4: "a constant of additional load over the horizon"), where `bf-io` lets it grow by a token a step.

    Args:
        horizon: H, decode steps looked ahead, >= 0.
        discount: gamma, weight of each further step, in (0, 1].
        penalty: beta, what a token over the envelope costs a step, >= 0; None = workers of the group (the paper's).
        reward: alpha, what a token below the envelope is worth, > 0.
        score: reading of the paper's eq. 2: ``marginal`` = reward and penalty at each step, ``single`` = one reward.
        stage_two_below: U_th, free slots down to which stage 1 admits one request at a time; None = workers.
        candidates: K, requests a subset is chosen from; 1..16, or 1..32 with ``solver=bitset``.
        pick: candidates are the largest (``size``, the paper's) or those around the worker's best total (``fit``).
        order: workers by (free slots, margin), the paper's, or by (margin, free slots).
        solver: ``enumerate`` all subsets, or reachable sums in a ``bitset`` (whole sizes; others are enumerated).
        age_limit: multiple of the mean wait after which a request is overdue: it is placed first, by itself, at the
            worker of largest score; 0 = off.

    Raises:
        InputError: an option out of range.

    Source: BalanceRoute sec. 4, Alg. 3, App. D.4; ageing is ours.
    """

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
        check_options("br-h", self.stage_two_below, self.candidates, self.solver, self.age_limit)
        if self.horizon < 0:
            raise InputError("br-h", "horizon", self.horizon, "an integer >= 0")
        check_score("br-h", self.discount, self.penalty, self.reward)

    def route(self, view: RoutingView) -> RoutingDecision:
        weights = discounts(self.discount, self.horizon)
        steps = float(np.cumsum(weights)[-1]) if self.score == "marginal" else 1.0
        rule = Rule(
            weights=weights,
            reward=self.reward * steps,
            penalty=self.penalty,
            stage_two_below=self.stage_two_below,
            candidates=self.candidates,
            fit=self.pick == "fit",
            margin_first=self.order == "margin",
            bits=self.solver == "bitset",
            age_limit=self.age_limit,
            one_by_one=False,
            ties_by_margin=self.order == "margin",
        )
        return route(view, rule)


def check_options(
    where: str, stage_two_below: int | None, candidates: int, solver: str, age_limit: float
) -> None:
    """Check the options BR-0 and BR-H share.

    Raises:
        InputError: an option out of range.
    """
    most = ENUMERATED if solver == "enumerate" else 32
    if stage_two_below is not None and stage_two_below < 0:
        raise InputError(
            where, "stage_two_below", stage_two_below, "an integer >= 0, or none for the workers"
        )
    if not 1 <= candidates <= most:
        hint = "solver=bitset takes up to 32." if solver == "enumerate" else ""
        raise InputError(where, "candidates", candidates, f"an integer from 1 to {most}", hint)
    check_age_limit(where, age_limit)


def check_score(where: str, discount: float, penalty: float | None, reward: float) -> None:
    """Check the options of the score that BR-0 and BR-H share.

    Raises:
        InputError: an option out of range.
    """
    if not 0 < discount <= 1:
        raise InputError(where, "discount", discount, "a number in (0, 1]")
    if penalty is not None and not 0 <= penalty < math.inf:
        raise InputError(where, "penalty", penalty, "a finite number >= 0, or none for the group's size")
    if not 0 < reward < math.inf:
        raise InputError(where, "reward", reward, "a finite number > 0")


policy = BRH
