"""The order in which a scheduling policy sees waiting requests: by a key computed when each joins the queue.

A key is a weighted sum of a request's features, so hosts can keep the queue sorted: the smallest first, ties to the lowest
row. It changes only when a request is evicted and joins the queue again.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np

from evenstep.compiled import jit
from evenstep.draws import uniform
from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.scheduling.view import CLASS, EVICTIONS, HIGH, ID, LOST_AT, LOW, PRODUCED, PROMPT, REACHED
from evenstep.streams import stream_number

#: The predicted output length: the lower bound, the middle of both bounds, or the upper bound.
Statistic = Literal["low", "middle", "high"]

#: Random stream of `QueueOrder.chance`.
CHANCE = "queue-order"
_CHANCE = stream_number(CHANCE)
#: Indices into `QueueOrder.weights`.
BY_ARRIVAL, BY_PROMPT, BY_LOW, BY_HIGH, BY_PRODUCED, BY_REACHED = range(6)
BY_LEARNED, BY_RAISED, BY_CHANCE, BY_LEVEL, QUANTUM, BY_SERVED, BY_CLASS = range(6, 13)


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """Weights of the features whose sum is a request's sort key. The request with the smallest key is first in the queue.

    Each field but `quantum` is the weight of one feature; 0 leaves it out.

    Args:
        arrival: of the arrival time, seconds: 1 alone is first come, first served.
        prompt: of the prompt tokens.
        low, high: of the bounds of the output length, tokens.
        produced: of output tokens that are kept: -1 together with ``low`` 1 is the predicted remainder.
        reached: of the most output tokens it ever had, also before a restart from zero.
        learned: of the lower bound as A_min learns it: `output_low` before the first eviction, afterwards the tokens it had
            at the last one, as Interval scheduling, Algorithm 2, says literally.
        raised: of the larger of `output_low` and the most tokens it had at an eviction, so that a bound is never lowered.
        chance: of a number in [0, 1) drawn for the request, keyed by the run's seed.
        level: of the level of tokens run so far, recomputed ones included: 0 below `quantum`, 1 below 2 quanta, 2 below 4.
        quantum: tokens at which level 0 ends, > 0; each further level ends at twice as many.
        served: of the level, in the same steps, of prompt tokens plus the most output tokens it ever had.
        request_class: of the number of its class.

    Raises: InputError for a weight that is not finite, or a quantum not above 0.
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
    request_class: float = 0.0

    def __post_init__(self) -> None:
        for name, value in zip(self.__slots__, astuple(self), strict=True):
            if not math.isfinite(value):
                raise InputError("queue order", name, value, "a finite number")
        if not self.quantum > 0:
            raise InputError("queue order", "quantum", self.quantum, "a number of tokens > 0")

    @property
    def weights(self) -> F8:
        """float64[13], the fields in order, as compiled loops take them."""
        return np.array(astuple(self))

    def keys(self, seed: int, rows: I8, arrival_s: F8) -> F8:
        """Sort keys of N requests, float64[N], one for each column of `rows`; `level` counts as if no tokens had run.

        `seed` is the run's. `rows` is int64[13, N], facts of each request in the rows of `scheduling.view` (`ID` ..
        `LOST_AT`); `arrival_s` is float64[N], seconds.
        """
        key = np.empty(arrival_s.size)
        fill_keys(self.weights, seed, np.ascontiguousarray(rows), np.array(arrival_s, np.float64), key)
        return key


def share_of_bounds(statistic: Statistic) -> tuple[float, float]:
    """Weights of lower and upper bound in a statistic: ``low`` (1, 0), ``middle`` (0.5, 0.5), ``high`` (0, 1)."""
    return {"low": (1.0, 0.0), "middle": (0.5, 0.5), "high": (0.0, 1.0)}[statistic]


@jit
def level(attained: int, quantum: float) -> int:
    """The number of times that `quantum` must be doubled to exceed `attained`, both in tokens; 0 if it does already."""
    found, edge = 0, quantum
    while attained >= edge:
        found, edge = found + 1, edge * 2.0
    return found


@jit
def key_of(weights: F8, seed: int, row: int, rows: I8, arrival_s: F8, attained: int) -> float:
    """The sort key of one request. Its terms are added in one fixed order, so that all hosts get the same bits.

    Args:
        weights: float64[13], `QueueOrder.weights`.
        rows: int64[13, *], facts of all requests, in the rows of `scheduling.view` (`ID` .. `LOST_AT`).
        arrival_s: float64[*], arrival of each request, by row, seconds.
        attained: tokens that the request has run so far, for the feature `level` only.
    """
    low, reached = rows[LOW, row], rows[REACHED, row]
    learned = rows[LOST_AT, row] if rows[EVICTIONS, row] > 0 else low
    ever = max(reached, rows[PRODUCED, row])
    chance = uniform(seed, _CHANCE, rows[ID, row], 0) if weights[BY_CHANCE] != 0.0 else 0.0
    key = weights[BY_ARRIVAL] * arrival_s[row]
    key += weights[BY_PROMPT] * rows[PROMPT, row]
    key += weights[BY_LOW] * low
    key += weights[BY_HIGH] * rows[HIGH, row]
    key += weights[BY_PRODUCED] * rows[PRODUCED, row]
    key += weights[BY_REACHED] * ever
    key += weights[BY_LEARNED] * learned
    key += weights[BY_RAISED] * max(low, reached)
    key += weights[BY_CHANCE] * chance
    key += weights[BY_LEVEL] * level(attained, weights[QUANTUM])
    key += weights[BY_CLASS] * rows[CLASS, row]
    return key + weights[BY_SERVED] * level(rows[PROMPT, row] + ever, weights[QUANTUM])


@jit
def fill_keys(weights: F8, seed: int, rows: I8, arrival_s: F8, key: F8) -> None:
    """Write the sort keys of the first N requests to `key`, float64[N], as `key_of` computes them with `attained` 0."""
    for row in range(key.size):
        key[row] = key_of(weights, seed, row, rows, arrival_s, 0)


#: First come, first served.
ARRIVAL: QueueOrder = QueueOrder(arrival=1.0)


def order_of(policy: object) -> QueueOrder:
    """The attribute `order` of a policy; the order of arrival if the policy has no such attribute."""
    return getattr(policy, "order", ARRIVAL)
