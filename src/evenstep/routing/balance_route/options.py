"""The options that BR-0 and BR-H share: their bounds."""

from __future__ import annotations

import math

from evenstep.errors import InputError
from evenstep.routing.filling import check_age_limit

#: Candidates that are enumerated at most; a bit-set takes up to `MOST`.
ENUMERATED, MOST = 16, 32


def check_options(where: str, stage_two_below: int | None, candidates: int, solver: str, age_limit: float) -> None:
    """Check the options of the two stages.

    Raises:
        InputError: an option out of range.
    """
    most = ENUMERATED if solver == "enumerate" else MOST
    if stage_two_below is not None and stage_two_below < 0:
        raise InputError(where, "stage_two_below", stage_two_below, "an integer >= 0, or none for the workers")
    if not 1 <= candidates <= most:
        hint = "solver=bitset takes up to 32." if solver == "enumerate" else ""
        raise InputError(where, "candidates", candidates, f"an integer from 1 to {most}", hint)
    check_age_limit(where, age_limit)


def check_score(where: str, discount: float, penalty: float | None, reward: float) -> None:
    """Check the options of the score.

    Raises:
        InputError: an option out of range.
    """
    if not 0 < discount <= 1:
        raise InputError(where, "discount", discount, "a number in (0, 1]")
    if penalty is not None and not 0 <= penalty < math.inf:
        raise InputError(where, "penalty", penalty, "a finite number >= 0, or none for the group's size")
    if not 0 < reward < math.inf:
        raise InputError(where, "reward", reward, "a finite number > 0")
