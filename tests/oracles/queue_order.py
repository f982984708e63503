"""The key of a waiting request once more, from what `QueueOrder` says of its weights."""

from __future__ import annotations

from evenstep import streams
from evenstep.scheduling.order import CHANCE, QueueOrder


def key(order: QueueOrder, seed: int, request: int, arrival_s: float, tokens: dict[str, int]) -> float:
    """The key of one request.

    Args:
        tokens: ``prompt``, ``low``, ``high``, ``produced``, ``reached``, ``lost_at``, ``attained``, and ``evictions``.
    """
    ever = max(tokens["reached"], tokens["produced"])
    features = {
        "arrival": arrival_s,
        "prompt": tokens["prompt"],
        "low": tokens["low"],
        "high": tokens["high"],
        "produced": tokens["produced"],
        "reached": ever,
        "learned": tokens["lost_at"] if tokens["evictions"] else tokens["low"],
        "raised": max(tokens["low"], tokens["reached"]),
        "chance": streams.uniform(seed, CHANCE, request),
        "level": _level(tokens["attained"], order.quantum),
        "served": _level(tokens["prompt"] + ever, order.quantum),
    }
    total = 0.0
    for name, value in features.items():
        total += getattr(order, name) * value
    return total


def _level(tokens: int, quantum: float) -> int:
    return next(n for n in range(64) if tokens < quantum * 2.0**n)
