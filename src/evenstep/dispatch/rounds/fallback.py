"""Decides when least load replaces the policy, and counts and keeps the reasons."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

#: Why a round fell back to least load. ``raised``: the policy raised; ``contract``: its answer broke the contract;
#: ``budget``: it took too much processor time; ``stale``: a worker shared with other senders was not read for too long;
#: ``predictor``: the predictor raised or gave an invalid answer; ``cooling``: one of these (except ``stale``) is less than
#: `policy_cooldown_s` ago; ``off``: it raised three times in a row; ``held``: it left a worker idle though a waiting
#: request fits it. In this last case least load decides about that request only, and the round counts as good.
Reason: TypeAlias = Literal["", "raised", "contract", "budget", "stale", "predictor", "cooling", "off", "held"]

_RAISED_TOO_OFTEN = 3
_COOLS = ("raised", "contract", "budget", "predictor")


@dataclass(frozen=True, slots=True)
class Fell:
    """A round in which least load decided in place of the policy, for ``held`` about some requests only."""

    decision: int  # running number of the decision, from 0
    now_s: float  # the host's time of the decision, in seconds
    reason: Reason  # see `Reason`; never empty
    why: str  # the reason with its subject, in words


class Fallback:
    """Decides in each round whether to ask the policy or least load.

    `cooldown_s`: seconds after a fault until the policy is asked again.

    Attributes:
        counted: number of rounds that fell back, by reason.
        last: the last round that fell back, None before the first; the caller sets it.
        cause: the last fault of the policy or predictor, in words; the caller sets it.
        is_off: the policy raised three times in a row, and is not asked until `reload`.
    """

    def __init__(self, cooldown_s: float) -> None:
        self.cooldown_s = cooldown_s
        self.counted: Counter[str] = Counter()
        self.last: Fell | None = None
        self.cause = ""
        self._fault_s = -math.inf
        self._raised = 0
        self.is_off = False

    def before(self, is_stale: bool, now_s: float) -> Reason:
        """The reason not to ask the policy in this round: ``off``, ``stale`` or ``cooling``; empty if it is to be asked."""
        if self.is_off:
            return "off"
        if is_stale:
            return "stale"
        return "cooling" if now_s < self._fault_s + self.cooldown_s else ""

    def after(self, reason: Reason, now_s: float) -> None:
        """Count a finished round by the `reason` for which it fell back to least load; empty if it did not.

        A fault (``raised``, ``contract``, ``budget``, ``predictor``) begins a cooldown; the third ``raised`` in a row turns
        the policy off.
        """
        if reason:
            self.counted[reason] += 1
        if reason in _COOLS:
            self._fault_s = now_s
        if reason == "raised":
            self._raised += 1
            self.is_off = self._raised >= _RAISED_TOO_OFTEN
        elif reason in ("", "contract", "budget", "held"):  # it was asked, and did not raise
            self._raised = 0

    def reload(self) -> None:
        """Forget earlier faults, so that the policy is asked again, because there is a new one. Counts stay."""
        self._fault_s, self._raised, self.is_off, self.cause = -math.inf, 0, False, ""
