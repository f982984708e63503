"""The key of one request, from what is known of it by name."""

from __future__ import annotations

import numpy as np

from evenstep.scheduling.order import QueueOrder, key_of
from evenstep.scheduling.view import CLASS, EVICTIONS, HIGH, ID, LOST_AT, LOW, PRODUCED, PROMPT, REACHED

NAMES = ("request", "prompt", "low", "high", "produced", "reached", "lost_at", "evictions")


def key_of_one(
    order: QueueOrder, *, seed: int, arrival_s: float, attained: int, request_class: int = 0, **known: int
) -> float:
    """Its key; `known` has a value for each of `NAMES`."""
    rows = np.zeros((LOST_AT + 1, 1), np.int64)
    rows[[ID, PROMPT, LOW, HIGH, PRODUCED, REACHED, LOST_AT, EVICTIONS], 0] = [known[name] for name in NAMES]
    rows[CLASS, 0] = request_class
    return key_of(order.weights, seed, 0, rows, np.array([arrival_s], np.float64), attained)
