"""Capabilities of workers relative to each other, from their speeds or from an option."""

from __future__ import annotations

from typing import cast

import numpy as np

from evenstep.compiled import part
from evenstep.config import Numbers, numbers_of
from evenstep.errors import InputError
from evenstep.request import F8
from evenstep.routing.rules import RuleView

#: Numbers an option may list; a list shorter than the fleet is repeated over it.
MOST_NUMBERS = 1024


@part
def list_capabilities(view: RuleView, stated: F8, capability: F8) -> float:
    """Write how much each worker can do, above 0, in one unit for all workers; returns the largest.

    Args:
        stated: one number a worker, repeated over the fleet; empty = by speed, ``1 / seconds_per_token`` relative to the
            fastest worker, which has 1. Where a KV token costs nothing on some worker all workers have 1.
        capability: float64[G], written.
    """
    least, largest = np.inf, 0.0
    for g in range(view.load.size):
        least = min(least, view.seconds_per_token[g])
    is_alike = not 0.0 < least < np.inf
    for g in range(view.load.size):
        if stated.size > 0:
            capability[g] = stated[g % stated.size]
        else:
            capability[g] = 1.0 if is_alike else least / view.seconds_per_token[g]
        largest = max(largest, capability[g])
    return largest


def check_capabilities(where: str, field: str, stated: Numbers) -> tuple[float, ...]:
    """Check the stated capabilities, and return them as numbers, () if empty; text is parsed (``1/1/0.5``, ``3*1/0.5``).

    Raises:
        InputError: text that is not a list of numbers, a number that is not finite or not above 0, or over `MOST_NUMBERS`
            numbers. It names `where`, the policy, and `field`, its option.
    """
    numbers = numbers_of(where, field, stated) if stated else cast("tuple[float, ...]", ())
    if len(numbers) > MOST_NUMBERS:
        raise InputError(where, field, f"{len(numbers)} numbers", f"at most {MOST_NUMBERS}", "Lists repeat.")
    for place, number in enumerate(numbers):
        if number <= 0:
            raise InputError(where, f"{field}[{place}]", number, "a number above 0")
    return numbers
