"""Bounds of the options that BR-0 and BR-H share."""

from __future__ import annotations

import math
from typing import Any

from evenstep.errors import InputError
from evenstep.routing.filling import check_age_limit

#: Candidates that are enumerated at most; a bit-set takes up to `MOST`.
ENUMERATED, MOST = 16, 32


def check_options(where: str, policy: Any) -> None:
    """Check the options of the two stages and of the score.

    Raises:
        InputError: an option out of range.
    """
    below, penalty, enumerates = policy.stage_two_below, policy.penalty, policy.solver == "enumerate"
    most = ENUMERATED if enumerates else MOST
    if below is not None and below < 0:
        raise InputError(where, "stage_two_below", below, "an integer >= 0, or null for the number of workers")
    if not 1 <= policy.candidates <= most:
        hint = "solver=bitset takes up to 32." if enumerates else ""
        raise InputError(where, "candidates", policy.candidates, f"an integer from 1 to {most}", hint)
    check_age_limit(where, policy.age_limit)
    if not 0 < policy.discount <= 1:
        raise InputError(where, "discount", policy.discount, "a number in (0, 1]")
    if penalty is not None and not 0 <= penalty < math.inf:
        raise InputError(where, "penalty", penalty, "a finite number >= 0, or null for the group's size")
    if not 0 < policy.reward < math.inf:
        raise InputError(where, "reward", policy.reward, "a finite number > 0")
