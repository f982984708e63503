"""The settings of `evenstep demo`, one flag a field. Imports stay light, so that ``--help`` answers at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from evenstep.config.layers import Settled
from evenstep.errors import InputError


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """A demonstration: one trace, sent to emulated ranks under several routing policies in turn.

    Args:
        source: trace to replay.
        requests: number of requests of the trace to replay for each policy.
        policies: routing policies to run in turn, NAME[:key=value,...]; @MS = milliseconds to gather free slots.
        ranks: emulated data-parallel ranks, all in one barrier group.
        slots: requests a rank runs at a time.
        overhead_s: fixed seconds of a step, C.
        per_token_s: seconds that each resident KV token of the heaviest rank adds to a step, t_l.
        load: arrival rate as a share of what the fleet could serve with even loads; above 1 all slots fill.
        seed: seed of the prompts, and of arrival times for a trace without times.
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
    """Check that the settings are in range and their policies exist; returns their value unchanged.

    The first wrong field raises `InputError`, which names a number as its layer (flag, file or default) writes it.
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
    """Split ``NAME[:key=value,...][@MS]`` into the policy's text and the gather time MS (None = the gateway's default).

    The gather time is in milliseconds. A wrong policy, option or gather time raises `InputError`.
    """
    from evenstep import names

    policy, at, gather = text.partition("@")
    names.build("routing", policy)
    if not at:
        return policy, None
    try:
        number = float(gather)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise InputError("--policy", "gather", gather, "milliseconds >= 0", "As in best@0.")
    return policy, number
