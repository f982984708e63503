# pyright: basic
"""Keys of the waiting queue, compiled: the twin of `order.QueueOrder.key`, equal in bits."""

from __future__ import annotations

from evenstep.compiled import jit
from evenstep.scheduling.order import CHANCE
from evenstep.scheduling.view import EVICTIONS, HIGH, ID, LOST_AT, LOW, PRODUCED, PROMPT, REACHED
from evenstep.streams import stream_number
from evenstep.streams_kernel import uniform

_CHANCE = stream_number(CHANCE)
(
    BY_ARRIVAL, BY_PROMPT, BY_LOW, BY_HIGH, BY_PRODUCED, BY_REACHED, BY_LEARNED, BY_RAISED, BY_CHANCE, BY_LEVEL, QUANTUM,
    BY_SERVED,
) = range(12)  # fmt: skip


@jit
def level(attained, quantum):
    """How often `quantum` has to be doubled to be above `attained`."""
    found, edge = 0, quantum
    while attained >= edge:
        found, edge = found + 1, edge * 2.0
    return found


@jit
def key_of(weights, seed, row, rows, arrival_s, attained):
    """The key of the request in a row: float64[12] weights, int64[13, *] rows."""
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
    return key + weights[BY_SERVED] * level(rows[PROMPT, row] + ever, weights[QUANTUM])
