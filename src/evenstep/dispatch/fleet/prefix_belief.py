"""Estimates how many prompt blocks a worker holds, corrected by the engine's own prefix-cache counters.

An engine whose cache is smaller than believed has dropped its oldest prefixes, and holds the latest. So a belief that is too
high is corrected by a smaller cache size, not by a scale on all prefixes.
"""

from __future__ import annotations

import math

_FEWEST, _MOST = 32, 256  # requests of a window; the second if the engine looked up less than half of their tokens
_CLOSE = 0.005  # differences of shares up to this count as equal
_OURS = 1.1  # tokens looked up over tokens sent: above this, other senders' requests are included
_FIRST = 16  # least growth of the room, in blocks


class Belief:
    """Estimated size in blocks of one worker's prefix cache.

    Args:
        most: upper bound of the estimate, in blocks, and its first value.

    Attributes:
        room: the present estimate, in blocks.
        believed_share, true_share: of prompt tokens in the last window compared, the share expected in the cache, and the
            share found there by the engine; nan before the first comparison.
    """

    def __init__(self, most: int) -> None:
        self.room = self._most = most
        self.believed_share = self.true_share = math.nan
        self.begin()

    def begin(self) -> None:
        """Forget the present window; the next page of metrics begins a new one, and `room` stays."""
        self._queried = self._hit = -1
        self._requests = self._sent = self._believed = 0

    def sent(self, prompt: int, believed: int) -> None:
        """Count a request that was sent to the worker: its prompt tokens, and those of them believed to be cached there."""
        self._requests += 1
        self._sent += prompt
        self._believed += believed

    def told(self, queried: int, hit: int, held: int) -> bool:
        """Compare the expected hits of the requests sent since the last comparison with the engine's counters.

        Nothing is compared before 32 requests (256 if the engine looked up less than half of their tokens). If it found
        fewer tokens than expected, `room` becomes a part of `held`, at least half. If it found more and `held` fills `room`,
        `room` grows, to at most `most`. Counters that fall mean a restart: a new window begins.

        Args:
            queried, hit: prompt tokens the engine looked up, and found, since it started; -1 = not reported.
            held: blocks that it is expected to hold now.

        Returns:
            Whether `room` changed.
        """
        if queried < 0 or hit < 0:
            return False
        if self._queried < 0 or queried < self._queried or hit < self._hit:  # the first page, or it began anew
            self.begin()
            self._queried, self._hit = queried, hit
            return False
        asked, found = queried - self._queried, hit - self._hit
        if self._requests < (_FEWEST if 2 * asked >= self._sent else _MOST) or not self._sent:
            return False
        least, most = _true_shares(self._sent, asked, found)
        self.believed_share = believed = self._believed / self._sent
        self.true_share = min(1.0, found / asked) if asked else 0.0
        self.begin()
        self._queried, self._hit = queried, hit
        before = self.room
        if believed > most + _CLOSE:
            self.room = int(held * max(0.5, most / believed))
        elif believed < least - _CLOSE and held >= self.room:
            more = int(self.room * min(2.0, least / believed)) if believed else 0
            self.room = min(self._most, max(more, self.room + _FIRST))
        return self.room != before


def _true_shares(sent: int, asked: int, found: int) -> tuple[float, float]:
    """Least and largest share of the `sent` prompt tokens that the engine can have had cached.

    It looked up `asked` tokens and found `found`. If `asked` is clearly above `sent`, the hits may belong to other senders.
    """
    if asked <= _OURS * sent:
        share = min(1.0, found / asked) if asked else 0.0
        return share, share
    return max(0.0, (found - (asked - sent)) / sent), min(1.0, found / sent)
