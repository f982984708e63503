"""Bounds of the options that BR-0 and BR-H share."""

from __future__ import annotations

from typing import Any

from evenstep.errors import check_range, check_range_if_given
from evenstep.routing.filling import check_age_limit

#: Candidates that are enumerated at most; a bit-set takes up to `MOST`.
ENUMERATED, MOST = 16, 32


def check_options(where: str, policy: Any) -> None:
    """Check the options of the two stages and of the score of a `BRH` or `BR0`; `where` is its name in errors.

    Raises:
        InputError: an option out of range.
    """
    most, hint = (ENUMERATED, f"solver=bitset takes up to {MOST}.") if policy.solver == "enumerate" else (MOST, "")
    expected = "an integer >= 0, or null for the number of workers"
    check_range_if_given(where, expected, low=0, stage_two_below=policy.stage_two_below)
    check_range(where, f"an integer from 1 to {most}", hint, low=1, high=most, candidates=policy.candidates)
    check_age_limit(where, policy.age_limit)
    check_range(where, "a number in (0, 1]", above=0, high=1, discount=policy.discount)
    expected = "a finite number >= 0, or null for the group's size"
    check_range_if_given(where, expected, low=0, finite=True, penalty=policy.penalty)
    check_range(where, "a finite number > 0", above=0, finite=True, reward=policy.reward)
