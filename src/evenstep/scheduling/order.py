"""In which order a scheduling policy is shown the requests that wait: a key for each, computed when it joins the queue.

A key is a weighted sum of what is known of a request, so hosts can keep the queue sorted: the smallest first, ties to the
lowest row. It changes only when a request is evicted and joins the queue again. `order_kernel.key_of` is the compiled twin.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np

from evenstep import streams
from evenstep.errors import InputError
from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """Weights of the features that make up a request's key; the smallest key stands first.

    Args:
        arrival: of the arrival time, seconds: 1 alone is first come, first served.
        prompt: of the prompt, tokens.
        low, high: of the bounds of the output length, tokens.
        produced: of output tokens that are kept, tokens: -1 beside ``low`` 1 is the predicted remainder.
        reached: of the most output tokens it ever had, tokens.
        learned: of the lower bound as A_min learns it: `output_low` before the first eviction, afterwards the tokens it
            had at the last one, word for word (003, Alg. 2).
        raised: of the largest of `output_low` and the tokens it had at each: the same, repaired; a known bound is never
            lowered.
        chance: of a number in [0, 1) drawn for the request, keyed by the run's seed.
        level: of the level of `attained` service, tokens run so far: 0 below `quantum`, 1 below twice as much, and so on.
        quantum: tokens of the first level.
        served: of the level, by the same quantum, of the prompt and the most output tokens it ever had: a request joins
            at the level of its prompt.
    """

    arrival: float = 0.0
    prompt: float = 0.0
    low: float = 0.0
    high: float = 0.0
    produced: float = 0.0
    reached: float = 0.0
    learned: float = 0.0
    raised: float = 0.0
    chance: float = 0.0
    level: float = 0.0
    quantum: float = 1.0
    served: float = 0.0

    def __post_init__(self) -> None:
        for name, value in zip(self.__slots__, astuple(self), strict=True):
            if not math.isfinite(value):
                raise InputError("queue order", name, value, "a finite number")
        if not self.quantum > 0:
            raise InputError("queue order", "quantum", self.quantum, "a number of tokens > 0")

    @property
    def weights(self) -> F8:
        """float64[12], the fields in order: what the compiled loop takes."""
        return np.array(astuple(self))

    def key(
        self, *, seed: int, request: int, arrival_s: float, prompt: int, low: int, high: int, produced: int,
        reached: int, lost_at: int, evictions: int, attained: int,
    ) -> float:  # fmt: skip
        """The key of one request, in float order of the fields; counts in tokens, as in `scheduling.view`."""
        learned = lost_at if evictions > 0 else low
        ever = max(reached, produced)
        chance = streams.uniform(seed, CHANCE, request) if self.chance != 0.0 else 0.0
        key = self.arrival * arrival_s
        key += self.prompt * prompt
        key += self.low * low
        key += self.high * high
        key += self.produced * produced
        key += self.reached * ever
        key += self.learned * learned
        key += self.raised * max(low, reached)
        key += self.chance * chance
        key += self.level * level(attained, self.quantum)
        return key + self.served * level(prompt + ever, self.quantum)

    def keys(self, *, seed: int, request: I8, arrival_s: F8, prompt: I8, low: I8, high: I8) -> F8:
        """`key` of requests that have run nothing yet, equal in bits: float64[N]; int64[N] each, arrivals float64[N]."""
        key = self.arrival * arrival_s
        key += self.prompt * prompt
        key += self.low * low
        key += self.high * high
        key += self.learned * low
        key += self.raised * low
        if self.chance != 0.0:
            key += self.chance * streams.uniform(seed, CHANCE, request)
        if self.served != 0.0:
            key += self.served * np.array([level(tokens, self.quantum) for tokens in prompt.tolist()])
        return key


#: The stream chances are drawn from.
CHANCE = "queue-order"
#: First come, first served.
ARRIVAL: QueueOrder = QueueOrder(arrival=1.0)


def level(attained: int, quantum: float) -> int:
    """How often `quantum` has to be doubled to be above `attained`, both in tokens."""
    found, edge = 0, quantum
    while attained >= edge:
        found, edge = found + 1, edge * 2.0
    return found


def order_of(policy: object) -> QueueOrder:
    """The order a policy declares by its attribute `order`, or that of arrival."""
    return getattr(policy, "order", ARRIVAL)
