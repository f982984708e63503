"""The order in which a scheduling policy sees waiting requests: by a key computed when each joins the queue.

A key is a weighted sum of what is known of a request, so hosts can keep the queue sorted: the smallest first, ties to the
lowest row. It changes only when a request is evicted and joins the queue again.
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

#: Points of [output_low, output_high], what is believed of an output length.
Statistic = Literal["low", "middle", "high"]

#: The stream chances are drawn from.
CHANCE = "queue-order"
_CHANCE = stream_number(CHANCE)
#: Places of the weights in `QueueOrder.weights`.
BY_ARRIVAL, BY_PROMPT, BY_LOW, BY_HIGH, BY_PRODUCED, BY_REACHED = range(6)
BY_LEARNED, BY_RAISED, BY_CHANCE, BY_LEVEL, QUANTUM, BY_SERVED, BY_CLASS = range(6, 13)


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """Weights of the features in a request's sort key, their weighted sum. The smallest key stands first.

    Args:
        arrival: of the arrival time, seconds: 1 alone is first come, first served.
        prompt: of the prompt, tokens.
        low, high: of the bounds of the output length, tokens.
        produced: of output tokens that are kept, tokens: -1 together with ``low`` 1 is the predicted remainder.
        reached: of the most output tokens it ever had, tokens, also before a restart from zero.
        learned: of the lower bound as A_min learns it: `output_low` before the first eviction, afterwards the tokens it had
            at the last one, as Interval scheduling, Algorithm 2, says literally.
        raised: of the larger of `output_low` and the most tokens it had at an eviction: the same, repaired, so that a known
            bound is never lowered.
        chance: of a number in [0, 1) drawn for the request, keyed by the run's seed.
        level: of the level of `attained` service, tokens run so far: 0 below `quantum`, 1 below 2 quanta, 2 below 4, and so
            on.
        quantum: tokens at which level 0 ends, > 0; each further level ends at twice as many.
        served: of the level, by the same quantum, of the prompt and the most output tokens it ever had: a request joins at
            the level of its prompt.
        request_class: of the number of its class.

    Raises:
        InputError: a weight that is not finite, or a quantum not above 0.
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
        """float64[13], the fields in order, as the compiled loop takes them."""
        return np.array(astuple(self))

    def keys(self, seed: int, rows: I8, arrival_s: F8) -> F8:
        """Keys of N requests, float64[N], in the given order; they count as having run no tokens (`attained` 0).

        Args:
            seed: of the run.
            rows: int64[13, N], what is known of them, in the rows of `scheduling.view`.
            arrival_s: float64[N], seconds.
        """
        key = np.empty(arrival_s.size)
        fill_keys(self.weights, seed, np.ascontiguousarray(rows), np.array(arrival_s, np.float64), key)
        return key


def share_of_bounds(statistic: Statistic) -> tuple[float, float]:
    """Weights of the lower and of the upper bound in a statistic of an output length: (1, 0), (0.5, 0.5) or (0, 1)."""
    return {"low": (1.0, 0.0), "middle": (0.5, 0.5), "high": (0.0, 1.0)}[statistic]


@jit
def level(attained: int, quantum: float) -> int:
    """How many times `quantum` must be doubled to exceed `attained`, both in tokens; 0 if it exceeds it already."""
    found, edge = 0, quantum
    while attained >= edge:
        found, edge = found + 1, edge * 2.0
    return found


@jit
def key_of(weights: F8, seed: int, row: int, rows: I8, arrival_s: F8, attained: int) -> float:
    """The key of the request in a row. Its terms are added in one fixed order, so that all hosts get the same bits.

    Args:
        weights: float64[13], `QueueOrder.weights`.
        seed: of the run.
        row: of the request.
        rows: int64[13, *], what is known of all requests, in the rows of `scheduling.view`.
        arrival_s: float64[*], by row, when each came, seconds.
        attained: tokens that the request has run so far.
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
    """Write to `key`, float64[N], the keys of the first N requests, `attained` 0; other arguments as in `key_of`."""
    for row in range(key.size):
        key[row] = key_of(weights, seed, row, rows, arrival_s, 0)


#: First come, first served.
ARRIVAL: QueueOrder = QueueOrder(arrival=1.0)


def order_of(policy: object) -> QueueOrder:
    """The policy's attribute `order`, or the order of arrival if it has none."""
    return getattr(policy, "order", ARRIVAL)
