"""When to decide: the steps of each barrier group as its chunks show them, and how long an open round gathers.

Slots of a group fall free together, but the last chunks of a step arrive milliseconds apart. A round opens on the first
event and is ripe when every running request of the group has delivered the chunk of its step (`lockstep`), or after
`gather_ms`.
"""

from __future__ import annotations

import math

from evenstep.dispatch.lockstep import Lockstep


class Rounds:
    """Open rounds of all groups.

    Args:
        lockstep: their steps.
    """

    def __init__(self, lockstep: Lockstep) -> None:
        self.lockstep = lockstep
        self.opened_s: dict[int, float] = {}  # when the round of a group was opened, in that order
        self.ripe = False  # whether an open round need not wait any longer

    def open(self, group: int, now_s: float) -> bool:
        """Something happened that a decision should see; whether that opened a round."""
        is_new = group not in self.opened_s
        if is_new:
            self.opened_s[group] = now_s
        self.ripe = self.ripe or self.lockstep.is_between(group)
        return is_new

    def stepped(self, group: int) -> None:
        """A step of a group is delivered: whoever came with it is there, even if somebody delivers the next one already."""
        if group in self.opened_s:
            self.opened_s[group] = -math.inf
            self.ripe = True

    def gathering(self, now_s: float, gather_s: float) -> set[int]:
        """Groups whose round is open and has to wait for more."""
        is_between = self.lockstep.is_between
        return {q for q, opened in self.opened_s.items() if now_s < opened + gather_s and not is_between(q)}

    def close(self, gathering: set[int]) -> None:
        """The rounds that need not wait are decided."""
        self.opened_s = {q: opened for q, opened in self.opened_s.items() if q in gathering}
        self.ripe = False

    def deadline_s(self, gather_s: float) -> float:
        """When the first open round need not wait any longer; inf when none is open."""
        for opened in self.opened_s.values():
            return opened + gather_s
        return float("inf")
