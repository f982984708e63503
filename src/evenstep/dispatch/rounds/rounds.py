"""Opens a round when a decision could change something, and lets it gather the rest of its barrier group.

Slots of a group fall free together, but the last chunks of a step arrive milliseconds apart. A round opens on the first
event. It is ripe if its group is between two steps, once the group has delivered a step (`lockstep`), or after
`gather_ms`. Slots that were free while no request waited need no gathering.
"""

from __future__ import annotations

import math

from evenstep.dispatch.fleet.mirror import Mirror
from evenstep.dispatch.requests.pool import Pool
from evenstep.dispatch.steps.groups import GroupSteps
from evenstep.dispatch.turn import Turn


class Rounds:
    """Open rounds of all barrier groups.

    Attributes:
        binds_at_once: the policy sends each request as soon as it can (pool bypass); no round opens.
        opened_s: group -> time at which its round was opened, in order of opening; -inf = it need not gather.
        ripe: whether an open round, of any group, need not wait any longer.
    """

    def __init__(self, turn: Turn, pool: Pool, mirror: Mirror) -> None:
        self._turn, self._pool, self._mirror = turn, pool, mirror
        self.binds_at_once = False
        self.begin(GroupSteps())

    def begin(self, steps: GroupSteps) -> None:
        """Close all rounds without deciding them, and use these steps from now on, because groups changed."""
        self._steps = steps
        self.opened_s: dict[int, float] = {}
        self.ripe = False
        self._groups: list[int] | None = None  # the groups of the last `open`; all of their rounds are open still

    def open(self, is_arrival: bool = False) -> None:
        """Open rounds for the groups with free slots, because something changed that a decision should see.

        Nothing happens while no request waits; a round that is open stays as it is. If a round is ripe, `Turn.due` is set.
        `is_arrival`: a request arrived; if no other waits, the slots were free before it, and its rounds need not gather.
        """
        turn = self._turn
        waiting = len(self._pool.here)
        if not waiting or self.binds_at_once:
            return
        groups = self._mirror.open_groups()
        if not (self.ripe and groups is self._groups):
            self._open(groups, -math.inf if is_arrival and waiting == 1 else turn.now_s)
        turn.due |= self.ripe

    def _open(self, groups: list[int], now_s: float) -> None:
        """Open the rounds of these groups, except open ones, at time `now_s`, and set `ripe` if one need not gather."""
        opened_s, delivered, is_ripe = self.opened_s, self._steps.at.delivered, self.ripe
        self._groups = groups
        if not opened_s and not any(delivered):  # no group is in a step: all are ripe
            self.opened_s = dict.fromkeys(groups, now_s)
            self.ripe = is_ripe or bool(groups)
            return
        for group in groups:
            if group not in opened_s:
                opened_s[group] = now_s
            if not delivered[group] or opened_s[group] == -math.inf:
                is_ripe = True
        self.ripe = is_ripe

    def stepped(self, group: int) -> None:
        """End the gathering of a group whose step is complete: its round, if one is open, is ripe from now on.

        If a round of any group is ripe, `Turn.due` is set; else rounds are opened as by `open`.
        """
        if group in self.opened_s:
            self.opened_s[group] = -math.inf
            self.ripe = True
        if self.ripe:
            self._turn.due = True
        else:
            self.open()

    def again(self) -> None:
        """Ask for one more decision after the next reads: opens rounds, and sets `ripe` and `Turn.due`."""
        self.open()
        self.ripe = self._turn.due = True

    def close(self, gather_s: float) -> set[int]:
        """Close the rounds that need not wait; returns the groups whose rounds go on gathering, at most `gather_s` in all.

        A group gathers while some but not all of its requests have delivered the present step. `ripe` becomes False.
        """
        delivered, opened_s, now_s = self._steps.at.delivered, self.opened_s, self._turn.now_s
        gathering: set[int] = set()
        if any(delivered):
            gathering = {q for q, opened in opened_s.items() if delivered[q] and now_s < opened + gather_s}
        if gathering:
            self.opened_s = {q: opened for q, opened in opened_s.items() if q in gathering}
        else:
            opened_s.clear()
        self.ripe, self._groups = False, None
        return gathering

    def deadline_s(self, gather_s: float) -> float:
        """Time at which the first open round stops gathering, in seconds; -inf if it need not gather, inf without one."""
        return next(iter(self.opened_s.values()), math.inf) + gather_s
