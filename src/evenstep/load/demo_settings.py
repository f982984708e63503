"""The settings of `evenstep demo`, one flag a field. Imports stay light, so that ``--help`` answers at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from evenstep.config import Settled
from evenstep.errors import InputError


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The demonstration.

    Args:
        source: the trace that is replayed.
        requests: requests of the trace, for each policy.
        policies: routing policies one after the other, NAME[:key=value,...]; @MS = milliseconds to gather free slots.
        ranks: emulated data-parallel ranks, all in one barrier group.
        slots: requests a rank runs at a time.
        overhead_s: seconds of a step at any load, C.
        per_token_s: seconds of a step a resident KV token of the heaviest rank, t_l.
        load: requests come at this share of what the fleet could do with even loads; above 1 all slots fill.
        seed: key of the prompts.
    """

    source: str = "sample:azure-conv"
    requests: int = 750
    policies: list[str] = field(
        default_factory=lambda: ["jsq", "best", "best@0"], metadata={"shape": "NAME[:KEY=VALUE,...][@MS]"}
    )
    ranks: int = 8
    slots: int = 24
    overhead_s: float = 0.0049
    per_token_s: float = 3.3e-7
    load: float = 1.2
    seed: int = 0


def checked(settled: Settled[DemoSettings]) -> DemoSettings:
    """The settings' value, checked for ranges and for policies that exist; nothing is changed.

    Raises:
        InputError: the first wrong field, named as its layer (flag or default) writes it.
    """
    value = settled.value
    at_least = {"requests": 1, "ranks": 1, "slots": 1, "overhead_s": 0, "per_token_s": 0, "seed": 0}
    settled.check_numbers(at_least, above_zero=("load",))
    if value.overhead_s + value.per_token_s <= 0:
        raise settled.refusal("per_token_s", "a step of more than 0 s")
    for text in value.policies:
        contender(text)
    return value


def contender(text: str) -> tuple[str, float | None]:
    """Parse ``NAME[:key=value,...][@MS]`` into the text of the policy, without ``@MS``, and its gather time.

    The gather time is in milliseconds; None without ``@MS``, for the gateway's default.

    Raises:
        InputError: no such policy, a wrong option, or no number of milliseconds >= 0 after the ``@``.
    """
    from evenstep import names

    policy, at, gather = text.partition("@")
    names.build("routing", names.parse(policy))
    if not at:
        return policy, None
    try:
        number = float(gather)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise InputError("--policy", "gather", gather, "milliseconds >= 0", "As in best@0.")
    return policy, number
