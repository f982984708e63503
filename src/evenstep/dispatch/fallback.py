"""When the policy is not asked, or not heard: least load decides instead, and why is counted."""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

#: Why a round fell back. ``raised``: the policy did; ``contract``: its answer broke the rules; ``budget``: it took too long;
#: ``stale``: a worker's state is too old; ``predictor``: the predictor raised or answered nonsense; ``cooling``: not yet
#: enough good rounds since the last of these; ``off``: raised three times in a row.
Reason: TypeAlias = Literal["", "raised", "contract", "budget", "stale", "predictor", "cooling", "off"]

_RAISED_TOO_OFTEN = 3


class Fallback:
    """Whether the policy is asked.

    Args:
        good_rounds: rounds without a fault after which it is asked again.
    """

    def __init__(self, good_rounds: int) -> None:
        self.good_rounds = good_rounds
        self.counted: Counter[str] = Counter()
        self._good = good_rounds
        self._raised = 0
        self.is_off = False

    def before(self, is_stale: bool) -> Reason:
        """Why the policy is not asked in this round; empty when it is."""
        if self.is_off:
            return "off"
        if is_stale:
            return "stale"
        return "cooling" if self._good < self.good_rounds else ""

    def after(self, reason: Reason) -> None:
        """A round is over: `reason` is why it fell back, empty when it did not."""
        if reason:
            self.counted[reason] += 1
        if reason in ("", "cooling"):
            self._good += 1
        elif reason != "off":
            self._good = 0
        if reason == "raised":
            self._raised += 1
            self.is_off = self._raised >= _RAISED_TOO_OFTEN
        elif reason in ("", "contract", "budget"):  # it was asked, and did not raise
            self._raised = 0

    def reload(self) -> None:
        """There is a new policy: it starts with a clean sheet."""
        self._good, self._raised, self.is_off = self.good_rounds, 0, False
