"""Assigns each chunk to a step of its barrier group, and finds when all requests have delivered a step.

The workers of a group step together, so all their running requests are counted as one. A request delivers once in each
step since it joined: its k-th token belongs to the k-th of these steps, however late its connection is read. A step ends
when every expected request has delivered it. A request that delivers earlier, for the next step or for several, is early
there.

Where counting fails, time decides. The first token of a newcomer belongs to the last delivered step if it comes within half
a step, else to the next one. A request that ends a step more than half a step after all others was assigned one step too
low, and moves to the next one. If all others are `AHEAD` steps ahead of a request, it is no longer expected, and joins like
a newcomer at its next chunk: an engine or a slow client may have delayed it. If requests differ by several steps time and
again, the engine makes several tokens in a step, and chunks are counted instead. Requests of several copies are never
expected: each copy has its own chunks.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

#: Instead of the number of the step that a request delivered last: it has no token yet; it is not waited for; it has copies.
NEW, BEHIND, WIDE = -1, 0, -2
#: Steps that one request may be ahead of another.
AHEAD = 8
#: Requests that part by several steps `_OFTEN` times, each of which is forgotten in 32 steps, are counted by chunks.
_OFTEN, RARELY = 8, 1 / 32
_ROOM = 2 * AHEAD  # early steps there is room for, at first
_MOST = 1024  # tokens of a chunk that are handled one by one; an engine may report any number
_FIRST = 2  # the number of a step is one above that of a step before it, and that one is above `BEHIND`


class Lockstep:
    """The steps of all groups. Each request is tracked by the number of its last delivered step, which the host stores.

    Args:
        running: running requests of each group.

    Attributes:
        step: the oldest step that is not yet delivered by all.
        expected: requests expected in it. delivered: those of them that have delivered it. going: those of the delivered
            that left with it.
        seen_s: time of the last delivery in it, or in the step before if there is none yet.
        ended: times of the steps that ended since the host's last check.
        early: how many steps after it have a delivery. early_delivered, early_going, early_seen_s: as above, for each of
            these steps; `room` of them for each group, group after group.
        ended_s: when the last step ended; nan = unknown. lasted_s: the last steps; inf = unknown.
        counts_tokens: 1 if each token of a chunk is its own step, 0 if a chunk is one step.
        parted: how often requests were several steps apart, lately.
    """

    def __init__(self, running: Sequence[int]) -> None:
        groups = len(running)
        self.running = list(running)
        self.step = array("q", [_FIRST]) * groups
        self.expected, self.delivered = array("q", [0]) * groups, array("q", [0]) * groups
        self.going, self.early = array("q", [0]) * groups, array("q", [0]) * groups
        self.seen_s, self.ended_s = array("d", [math.nan]) * groups, array("d", [math.nan]) * groups
        self.lasted_s, self.parted = array("d", [math.inf]) * groups, array("d", [0.0]) * groups
        self.counts_tokens = array("q", [True]) * groups
        self.ended, self.room = list[float](), _ROOM
        self.early_delivered, self.early_going = (array("q", [0]) * (groups * _ROOM) for _ in range(2))
        self.early_seen_s = array("d", [0.0]) * (groups * _ROOM)

    def is_between(self, group: int) -> bool:
        """Whether all requests have delivered the last step, and none the next."""
        return not self.delivered[group]

    def joins(self, group: int) -> None:
        """A request runs now."""
        self.running[group] += 1

    def place(self, group: int, last: int, tokens: int, now_s: float) -> int:
        """The step a chunk belongs to, the last one if it belongs to several.

        Args:
            last: the step that its request delivered last. tokens: in the chunk.
        """
        step = self.step[group]
        if last >= step - 1:
            return last + (min(tokens, _MOST) if self.counts_tokens[group] else 1)
        if self.early[group]:
            return step + self.early[group]
        is_next = not self.expected[group] or not self.is_between(group) or self._is_late(group, now_s)
        return step if is_next else step - 1

    def deliver(self, group: int, last: int, step: int, now_s: float) -> int:
        """A request delivers; the step that it has delivered last by now.

        Args:
            last: the one before. step: as `place` says.
        """
        first = last + 1
        if last < self.step[group] - 1:
            self.expected[group] += 1
            first = self.step[group]
        elif step == self.step[group] and self._was_waited_for(group) and self._is_late(group, now_s):
            self._parts(group, self.early[group] > 1)
            self.expected[group] -= 1  # for a moment: the others have delivered this one long ago
            self._close(group)
            self.expected[group] += 1
            first = self.step[group]
            step = first + self.early[group]
        self._count(group, first, step, now_s)
        if step - self.step[group] >= AHEAD:
            self.expected[group] = self.delivered[group]
            self._parts(group, True)
        self._close(group)
        return step

    def was_in_step(self, group: int, last: int) -> bool:
        """Whether a request that ends was in the step that is under way, or else in the last one."""
        return last == WIDE or last >= self.step[group] - self.is_between(group)

    def leave(self, group: int, last: int) -> None:
        """A request does not run any more."""
        self.running[group] -= 1
        ahead = last - self.step[group]
        if ahead >= 0:  # it is counted in all that it has delivered
            if ahead == 0:
                self.going[group] += 1
            else:
                self.early_going[group * self.room + ahead - 1] += 1
        elif ahead == -1:
            self.expected[group] -= 1
            self._close(group)
        if not self.running[group]:
            self.ended_s[group], self.lasted_s[group] = math.nan, math.inf
            self.counts_tokens[group], self.parted[group] = True, 0.0

    def check(self, group: int, last: Sequence[int]) -> None:
        """See that the counts are those of the running requests.

        Args:
            last: the step that each of them delivered last.

        Raises:
            RuntimeError: they are not.
        """
        step, at = self.step[group], group * self.room
        going = [self.going[group], *self.early_going[at : at + self.early[group]]]
        kept = [self.running[group], self.expected[group], self.delivered[group]]
        kept += self.early_delivered[at : at + self.early[group]]
        told = [len(last), sum(one >= step - 1 for one in last) + sum(going)]
        told += [sum(one >= step + n for one in last) + sum(going[n:]) for n in range(len(going))]
        if kept != told:
            raise RuntimeError(f"the steps of group {group} have {kept}; its requests say {told}")

    def _parts(self, group: int, is_far: bool) -> None:
        """A request is several steps from the others, as it is counted."""
        self.parted[group] += is_far
        self.counts_tokens[group] &= self.parted[group] < _OFTEN

    def _was_waited_for(self, group: int) -> bool:
        """Whether one request is waited for, and by others."""
        return 1 < self.expected[group] == self.delivered[group] + 1

    def _is_late(self, group: int, now_s: float) -> bool:
        """Whether half a step has passed since the last delivery."""
        return 2.0 * (now_s - self.seen_s[group]) > self.lasted_s[group]

    def _count(self, group: int, first: int, step: int, now_s: float) -> None:
        """Record a delivery of these steps."""
        under_way = self.step[group]
        if first == under_way <= step:
            self.delivered[group] += 1
            self.seen_s[group] = now_s
        ahead = step - under_way
        if ahead > self.early[group]:
            while ahead > self.room:
                self._widen()
            self.early[group] = ahead
        at = group * self.room - 1
        for place in range(at + max(first - under_way, 1), at + ahead + 1):
            self.early_delivered[place] += 1
            self.early_seen_s[place] = now_s

    def _close(self, group: int) -> None:
        """End the steps that all have delivered; those that end at once share the time."""
        ended, at_s = 0, 0.0
        while 0 < self.delivered[group] == self.expected[group]:
            ended, at_s = ended + 1, self.seen_s[group]
            self.step[group] += 1
            self.expected[group] -= self.going[group]
            self.delivered[group] = self.going[group] = 0
            if self.early[group]:
                self._next(group)
        if ended:
            seconds = (at_s - self.ended_s[group]) / ended
            self.ended += [at_s - seconds * n if n else at_s for n in range(ended - 1, -1, -1)]
            self.ended_s[group] = at_s
            if seconds >= 0.0:
                known_s = self.lasted_s[group]
                self.lasted_s[group] = seconds if known_s == math.inf else 0.75 * known_s + 0.25 * seconds
            self.parted[group] = max(0.0, self.parted[group] - RARELY * ended)

    def _next(self, group: int) -> None:
        """Make the first early step the current one."""
        at, end = group * self.room, group * self.room + self.early[group]
        self.delivered[group], self.going[group] = self.early_delivered[at], self.early_going[at]
        self.seen_s[group] = self.early_seen_s[at]
        _drop_first(self.early_delivered, at, end)
        _drop_first(self.early_going, at, end)
        _drop_first(self.early_seen_s, at, end)
        self.early[group] -= 1

    def _widen(self) -> None:
        """Room for twice as many early steps."""
        room, self.room = self.room, 2 * self.room
        self.early_delivered = _widened(self.early_delivered, room)
        self.early_going = _widened(self.early_going, room)
        self.early_seen_s = _widened(self.early_seen_s, room)


def _drop_first(steps: array[Any], at: int, end: int) -> None:
    """Move later steps up by one."""
    steps[at : end - 1] = steps[at + 1 : end]
    steps[end - 1] = 0


def _widened(steps: array[Any], room: int) -> array[Any]:
    """Double the room of each group."""
    found, more = array(steps.typecode), array(steps.typecode, [0]) * room
    for at in range(0, len(steps), room):
        found += steps[at : at + room] + more
    return found
