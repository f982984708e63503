"""Which step of its barrier group a chunk belongs to, and when a step has been delivered by everybody.

The workers of a group step together, so all their running requests are counted as one: a request delivers once in each
step since it joined, and its k-th token belongs to the k-th of them, however late its connection is read and whoever else
has gone on meanwhile. A step ends when every request that is waited for has delivered it; a request that delivers before
that for the next step, or for several, is early there.

What cannot be counted is told by time. The first token of a newcomer belongs to the step that was delivered last if it
comes soon after it (half a step), else to the next one. A request that ends a step more than half a step after everybody
else was taken for one too low: it is in the next one. A request that all others are `AHEAD` steps ahead of is not waited
for any longer, and joins like a newcomer when it is heard of again: an engine may set one back, or a slow client. Where
requests part by several steps time and again, an engine makes several tokens in a step, and chunks are counted instead.
Requests of several copies are not waited for: each copy has chunks of its own.
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
_ROOM = 2 * AHEAD  # steps that somebody is early in, at first
_MOST = 1024  # tokens of a chunk that are looked at one by one; an engine may say any number
_FIRST = 2  # the number of a step is one above that of a step before it, and that one is above `BEHIND`


class Lockstep:
    """The steps of all groups; a request is known by the number of the step that it delivered last, which its host keeps.

    Args:
        running: running requests of each group.

    Attributes:
        step: the oldest step that is not delivered by all.
        expected: requests that are waited for in it. delivered: those of them that have delivered it. going: those of
            these who are gone with it.
        seen_s: when somebody delivered in it, or in the one before if nobody has.
        ended: when steps ended, since the host looked.
        early: how many steps after it somebody has delivered. early_delivered, early_going, early_seen_s: as above, of
            each of these steps; `room` of them for each group, one group behind the other.
        ended_s: when the last step ended; nan = nobody knows. lasted_s: the last steps; inf = nobody knows.
        counts_tokens: 1 where each token of a chunk is of a step of its own, 0 where a chunk is of one step.
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
        """Whether everybody has delivered the last step, and nobody the next."""
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
        """Whether half a step has gone by since somebody delivered."""
        return 2.0 * (now_s - self.seen_s[group]) > self.lasted_s[group]

    def _count(self, group: int, first: int, step: int, now_s: float) -> None:
        """Somebody delivers these steps."""
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
        """The first of the steps that somebody is early in is the one under way now."""
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
    """Those behind it move up by one."""
    steps[at : end - 1] = steps[at + 1 : end]
    steps[end - 1] = 0


def _widened(steps: array[Any], room: int) -> array[Any]:
    """As much room again behind each `room` of them."""
    found, more = array(steps.typecode), array(steps.typecode, [0]) * room
    for at in range(0, len(steps), room):
        found += steps[at : at + room] + more
    return found
