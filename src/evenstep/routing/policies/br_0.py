"""BR-0: BalanceRoute without prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from evenstep.errors import InputError
from evenstep.routing.balance_route.assign import STAGE_TWO, decide
from evenstep.routing.balance_route.assign import AssignWork as Work
from evenstep.routing.filling import count_overdue
from evenstep.routing.policies.br_h import BRH, settings_of
from evenstep.routing.rules import RuleView, rule


@dataclass(frozen=True, slots=True)
class BR0(BRH):
    """BalanceRoute on the loads of this step: the subset of waiting requests that fills each worker to the envelope.

    It is BR-H with horizon 0; the paper's has reward 1 and the group's size as penalty. Defaults are the paper's, except
    `age_limit` (paper mode: ``age_limit=0``).

    Args:
        horizon: 0; `br-h` looks ahead.
        discount: gamma of `br-h`, in (0, 1]: weight of later steps; without effect here.
        score: reading of the paper's eq. 2 in `br-h`: ``marginal`` and ``single`` are the same without a horizon.
        order: workers by (free slots, margin), the paper's, or by (margin, free slots). By the former, stage 1 takes smaller
            load for margin, and stage 2 does not update a worker's margin while others are served; by the latter, it does.
        bypass: pool bypass: every request is placed by itself, oldest first, at the worker of largest score. Loads include
            requests sent and not yet decoding, as without it.
        ties: with `bypass`, equal scores go to the widest ``margin`` (with one group this is least-load), or to the most
            ``free-slots``.

    Source: BalanceRoute sec. 3, Alg. 2, App. D.4 and D.6; ageing is ours.
    """

    where: ClassVar[str] = "br-0"

    horizon: int = 0
    discount: float = 1.0
    bypass: bool = False
    ties: Literal["margin", "free-slots"] = "margin"

    def __post_init__(self) -> None:
        if self.horizon != 0:
            raise InputError("br-0", "horizon", self.horizon, "0", "br-h looks ahead.")
        BRH.__post_init__(self)


@rule
def route(view: RuleView, options: Any, work: Work) -> None:
    """Place overdue requests, or with `bypass` all, one by one; then run the two stages. The answer is `work.worker`."""
    alone = view.waiting_load.size if options.bypass else count_overdue(view, options.age_limit)
    ties_by_margin = options.ties_margin if options.bypass else options.order_margin
    decide(STAGE_TWO, alone, 1.0, settings_of(options, ties_by_margin), view, work)


policy = BR0
