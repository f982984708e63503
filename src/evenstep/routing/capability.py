"""Capabilities of workers relative to each other, from their speeds or from an option."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.config.number import Numbers, numbers_of
from evenstep.errors import InputError
from evenstep.request import F8
from evenstep.routing.rules import RuleView

#: Numbers an option may list; a list shorter than the fleet is repeated over it.
MOST_NUMBERS = 1024


@part
def list_capabilities(view: RuleView, stated: F8, capability: F8) -> float:
    """Write the capability of each worker, a relative speed above 0, to `capability`; returns the largest.

    Args:
        stated: float64[n], capabilities that an option states, repeated if the fleet is larger, cut if it is smaller. Empty:
            by speed, ``1 / seconds_per_token`` relative to the fastest worker, which has 1. If a KV token costs 0 seconds on
            some worker, all workers have 1.
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
    """Check the capabilities that an option states, and return them as a tuple of numbers; () if `stated` is empty.

    Text like ``1/1/0.5`` or ``3*1/0.5`` is parsed. Raises an `InputError` for other text, a number that is not finite or not
    above 0, or more than `MOST_NUMBERS` numbers. `where` and `field` name the policy and its option in the error.
    """
    numbers = numbers_of(where, field, stated or ())
    if len(numbers) > MOST_NUMBERS:
        raise InputError(where, field, f"{len(numbers)} numbers", f"at most {MOST_NUMBERS}", "Lists repeat.")
    for place, number in enumerate(numbers):
        if number <= 0:
            raise InputError(where, f"{field}[{place}]", number, "a number above 0")
    return numbers
