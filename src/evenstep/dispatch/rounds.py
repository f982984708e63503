"""When to decide: the steps of each barrier group as its chunks show them, and how long an open round gathers.

Slots of a group fall free together, but the last chunks of a step arrive milliseconds apart. A round opens on the first
event and is ripe when every running worker of the group has delivered the chunks of this step, or after `gather_ms`.

A worker's step is delivered when each of its running requests has delivered once in it; a request that delivers a second
time begins the worker's next step. Where a step is delivered, the first token of a newcomer belongs to it if it comes soon
(half a step), else to the next one. A group's step is delivered when that of every running worker is; a worker that has
delivered it and begins its own next one begins the group's next step.
"""

from __future__ import annotations

from collections.abc import Sequence


class Rounds:
    """Open rounds and steps of all groups. Worker numbers are places in the mirror.

    Args:
        group: barrier group of each worker.
        groups: how many there are.
    """

    def __init__(self, group: Sequence[int], groups: int) -> None:
        self.group = list(group)
        self.step = [0] * groups
        self.delivered = [0] * groups  # workers that have delivered this step
        self.last = [-1] * len(self.group)  # the group step a worker delivered last
        self.told = [-1] * len(self.group)  # the step of its own it delivered last
        self.active = [0] * groups  # workers with a running request
        self.opened_s: dict[int, float] = {}  # when the round of a group was opened, in that order
        self.ripe = False  # whether an open round need not wait any longer

    def open(self, group: int, now_s: float) -> bool:
        """Something happened that a decision should see; whether that opened a round."""
        is_new = group not in self.opened_s
        if is_new:
            self.opened_s[group] = now_s
        self.ripe = self.ripe or self.is_complete(group)
        return is_new

    def is_complete(self, group: int) -> bool:
        """Whether every running worker has delivered this step."""
        return self.delivered[group] >= self.active[group]

    def begins(self, worker: int) -> None:
        """A worker has a running request now and had none."""
        self.active[self.group[worker]] += 1

    def ends(self, worker: int) -> None:
        """A worker has no running request any more."""
        group = self.group[worker]
        self.active[group] -= 1
        if self.last[worker] == self.step[group]:
            self.delivered[group] -= 1
        self.last[worker] = -1
        if group in self.opened_s and self.is_complete(group):
            self.ripe = True

    def steps_on(self, worker: int) -> bool:
        """A worker begins its next step; whether its group does with it, since it had delivered the group's."""
        group = self.group[worker]
        if self.last[worker] != self.step[group]:
            return False
        self.step[group] += 1
        self.delivered[group] = 0
        return True

    def deliver(self, worker: int, step: int) -> bool:
        """A worker has delivered its own step of this number; whether that completes the step of its group."""
        if self.told[worker] == step:  # a request joined a step that was delivered already
            return False
        self.told[worker] = step
        group = self.group[worker]
        self.last[worker] = self.step[group]
        self.delivered[group] += 1
        if self.delivered[group] < self.active[group]:
            return False
        if group in self.opened_s:
            self.ripe = True
        return True

    def gathering(self, now_s: float, gather_s: float) -> set[int]:
        """Groups whose round is open and has to wait for more."""
        return {
            q for q, opened in self.opened_s.items() if now_s < opened + gather_s and not self.is_complete(q)
        }

    def close(self, gathering: set[int]) -> None:
        """The rounds that need not wait are decided."""
        self.opened_s = {q: opened for q, opened in self.opened_s.items() if q in gathering}
        self.ripe = False

    def deadline_s(self, gather_s: float) -> float:
        """When the first open round need not wait any longer; inf when none is open."""
        for opened in self.opened_s.values():
            return opened + gather_s
        return float("inf")
