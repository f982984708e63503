"""What workers can do relative to each other: from their speeds, or as somebody states it."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from evenstep.config import Numbers, numbers_of
from evenstep.errors import InputError
from evenstep.request import F8
from evenstep.routing.view import RoutingView

#: Numbers an option may list; a list shorter than the fleet is repeated over it.
MOST_NUMBERS = 1024


def capabilities(view: RoutingView, stated: Numbers) -> F8:
    """float64[G] above 0, how much each worker can do; the same unit for all.

    Args:
        stated: one number a worker, repeated over the fleet; empty = by speed, ``1 / seconds_per_token`` relative to the
            fastest worker, which has 1. Where a KV token costs nothing on some worker all are alike.
    """
    G = view.load.size
    if stated:
        return np.resize(np.array(stated, np.float64), G)
    cost = view.seconds_per_token
    least = cost.min()
    return least / cost if 0 < least < math.inf else np.ones(G)


def check_capabilities(where: str, field: str, stated: Numbers) -> tuple[float, ...]:
    """The stated numbers, read from text where they are text.

    Raises:
        InputError: no list of numbers, one not above 0, or too many.
    """
    numbers = numbers_of(where, field, stated) if stated else cast("tuple[float, ...]", ())
    if len(numbers) > MOST_NUMBERS:
        raise InputError(where, field, f"{len(numbers)} numbers", f"at most {MOST_NUMBERS}", "Lists repeat.")
    for place, number in enumerate(numbers):
        if number <= 0:
            raise InputError(where, f"{field}[{place}]", number, "a number above 0")
    return numbers
