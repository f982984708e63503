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
        self.opened: list[int] | None = None  # the groups of the last `open`, all of them open still

    def open(self, groups: list[int], now_s: float) -> None:
        """Something happened that a decision of these groups should see."""
        if self.ripe and groups is self.opened:
            return
        opened_s, delivered, is_ripe = self.opened_s, self.lockstep.delivered, self.ripe
        if not opened_s and not any(delivered):  # nobody is in a step: all are ripe
            self.opened_s = dict.fromkeys(groups, now_s)
            self.ripe, self.opened = is_ripe or bool(groups), groups
            return
        for group in groups:
            if group not in opened_s:
                opened_s[group] = now_s
            if not delivered[group]:
                is_ripe = True
        self.ripe, self.opened = is_ripe, groups

    def stepped(self, group: int) -> None:
        """A step of a group is delivered: whoever came with it is there, even if somebody delivers the next one already."""
        if group in self.opened_s:
            self.opened_s[group] = -math.inf
            self.ripe = True

    def close(self, now_s: float, gather_s: float) -> set[int]:
        """The rounds that need not wait are decided; groups whose round is open and has to wait for more."""
        delivered, opened_s = self.lockstep.delivered, self.opened_s
        gathering: set[int] = set()
        if any(delivered):
            gathering = {q for q, opened in opened_s.items() if delivered[q] and now_s < opened + gather_s}
        if gathering:
            self.opened_s = {q: opened for q, opened in opened_s.items() if q in gathering}
        else:
            opened_s.clear()
        self.ripe, self.opened = False, None
        return gathering

    def deadline_s(self, gather_s: float) -> float:
        """When the first open round need not wait any longer; inf when none is open."""
        for opened in self.opened_s.values():
            return opened + gather_s
        return float("inf")
