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

import numpy as np

from evenstep.request import F8, I8

#: Instead of the number of the step that a request delivered last: it has no token yet; it is not waited for; it has copies.
NEW, BEHIND, WIDE = -1, 0, -2
#: Steps that one request may be ahead of another.
AHEAD = 8
_OFTEN, _RARELY = 8, 1 / 32  # so many times more than once in so many steps
_FIRST = 2  # the number of a step is one above that of a step before it, and that one is above `BEHIND`


class Lockstep:
    """The steps of all groups; a request is known by the number of the step that it delivered last, which its host keeps.

    Args:
        running: running requests of each group.

    Attributes:
        step: the oldest step that is not delivered by all.
        expected: requests that are waited for in it. delivered: those of them that have delivered it.
        seen_s: when somebody delivered in it, or in the one before if nobody has.
        ended: when steps ended, since the host looked.
        early: how many steps after it somebody has delivered.
        several: int64[Q, AHEAD], how often it was delivered together with so many steps after it, where that is not
            counted in these yet: `delivering_kernel` leaves it, and says so in `folds`. several_s: when last.
        counts_tokens: 1 where each token of a chunk is of a step of its own, 0 where a chunk is of one step.
    """

    def __init__(self, running: Sequence[int]) -> None:
        groups = len(running)
        self.running = list(running)
        self.step = array("q", [_FIRST]) * groups
        self.expected, self.delivered = array("q", [0]) * groups, array("q", [0]) * groups
        self.seen_s = array("d", [math.nan]) * groups
        self.ended = list[float]()
        self._going = [0] * groups  # of those who delivered it, who are gone with it
        self._early = [list[_Early]() for _ in range(groups)]  # the steps after it that somebody delivered
        self.early, self.folds = array("q", [0]) * groups, array("q", [0]) * groups
        self.several: I8 = np.zeros((groups, AHEAD), np.int64)
        self.several_s: F8 = np.zeros((groups, AHEAD))
        self._ended_s = [math.nan] * groups
        self._lasted_s = [math.inf] * groups  # the last steps; inf = nobody knows
        self.counts_tokens, self._parted = array("q", [True]) * groups, [0.0] * groups

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
        if self.folds[group]:
            self._fold(group)
        step = self.step[group]
        if last >= step - 1:
            return last + (tokens if self.counts_tokens[group] else 1)
        if self._early[group]:
            return step + len(self._early[group])
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
            self._parts(group, len(self._early[group]) > 1)
            self.expected[group] -= 1  # for a moment: the others have delivered this one long ago
            self._close(group)
            self.expected[group] += 1
            first = self.step[group]
            step = first + len(self._early[group])
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
        if self.folds[group]:
            self._fold(group)
        self.running[group] -= 1
        ahead = last - self.step[group]
        if ahead >= 0:  # it is counted in all that it has delivered
            if ahead == 0:
                self._going[group] += 1
            else:
                self._early[group][ahead - 1].going += 1
        elif ahead == -1:
            self.expected[group] -= 1
            self._close(group)
        if not self.running[group]:
            self._ended_s[group], self._lasted_s[group] = math.nan, math.inf
            self.counts_tokens[group], self._parted[group] = True, 0.0

    def check(self, group: int, last: Sequence[int]) -> None:
        """See that the counts are those of the running requests.

        Args:
            last: the step that each of them delivered last.

        Raises:
            RuntimeError: they are not.
        """
        if self.folds[group]:
            self._fold(group)
        step, early = self.step[group], self._early[group]
        going = [self._going[group], *(one.going for one in early)]
        kept = [self.running[group], self.expected[group], self.delivered[group]]
        kept += [one.delivered for one in early]
        told = [len(last), sum(one >= step - 1 for one in last) + sum(going)]
        told += [sum(one >= step + n for one in last) + sum(going[n:]) for n in range(len(going))]
        if kept != told:
            raise RuntimeError(f"the steps of group {group} have {kept}; its requests say {told}")

    def _fold(self, group: int) -> None:
        """Count the steps after the one under way that were delivered together with it."""
        early = self._early[group]
        several, several_s = self.several[group].tolist(), self.several_s[group].tolist()
        for ahead, (times, at_s) in enumerate(zip(several, several_s, strict=True)):
            for one in early[: ahead if times else 0]:
                one.delivered += times
                one.seen_s = max(one.seen_s, at_s)
        self.several[group] = self.folds[group] = 0

    def _parts(self, group: int, is_far: bool) -> None:
        """A request is several steps from the others, as it is counted."""
        self._parted[group] += is_far
        self.counts_tokens[group] &= self._parted[group] < _OFTEN

    def _was_waited_for(self, group: int) -> bool:
        """Whether one request is waited for, and by others."""
        return 1 < self.expected[group] == self.delivered[group] + 1

    def _is_late(self, group: int, now_s: float) -> bool:
        """Whether half a step has gone by since somebody delivered."""
        return 2.0 * (now_s - self.seen_s[group]) > self._lasted_s[group]

    def _count(self, group: int, first: int, step: int, now_s: float) -> None:
        """Somebody delivers these steps."""
        early, under_way = self._early[group], self.step[group]
        if first == under_way <= step:
            self.delivered[group] += 1
            self.seen_s[group] = now_s
        for ahead in range(max(first - under_way, 1), step - under_way + 1):
            if ahead > len(early):
                early.append(_Early())
                self.early[group] += 1
            early[ahead - 1].delivered += 1
            early[ahead - 1].seen_s = now_s

    def _close(self, group: int) -> None:
        """End the steps that all have delivered; those that end at once share the time."""
        ended, at_s = 0, 0.0
        while 0 < self.delivered[group] == self.expected[group]:
            ended, at_s = ended + 1, self.seen_s[group]
            self.step[group] += 1
            self.expected[group] -= self._going[group]
            self.delivered[group] = self._going[group] = 0
            if self._early[group]:
                next_ = self._early[group].pop(0)
                self.early[group] -= 1
                self.delivered[group], self._going[group] = next_.delivered, next_.going
                self.seen_s[group] = next_.seen_s
        if ended:
            seconds = (at_s - self._ended_s[group]) / ended
            self.ended += [at_s - seconds * n if n else at_s for n in range(ended - 1, -1, -1)]
            self._ended_s[group] = at_s
            if seconds >= 0.0:
                known_s = self._lasted_s[group]
                self._lasted_s[group] = seconds if known_s == math.inf else 0.75 * known_s + 0.25 * seconds
            self._parted[group] = max(0.0, self._parted[group] - _RARELY * ended)


class _Early:
    """A step that not all have reached: requests that delivered it, those of them that are gone since, and the last time."""

    def __init__(self) -> None:
        self.delivered = self.going = 0
        self.seen_s = math.nan
