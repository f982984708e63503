"""A step-time law that depends on the longest context of a worker as well as on the sum of its KV."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from evenstep.cost.knots import (
    Pairs,
    Sync,
    as_lines,
    check_seconds,
    check_sync,
    line_knots,
    pairs_of,
    sync_seconds,
)
from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError
from evenstep.request import F8, I8

_PER_TOKEN_S = 1.1e-7


@dataclass(frozen=True, slots=True)
class Unequal:
    """``dt = overhead_s + sync + max_g line(L_g + share * (n_g * longest_g - L_g))``.

    A worker of n requests takes the time of its load L, plus a share of a difference. The difference is to the time it would
    take if all n were as long as the longest. The line is ``per_token_s * load``, or goes through `knots` as that of
    `piecewise`.

    Args:
        share: of the way to the longest, 0..1; 0 is the law without it.
        overhead_s: C, seconds of a step at any load.
        per_token_s: t_l, seconds a resident KV token; left alone where knots are given.
        knots: pairs of KV load in tokens and seconds without overhead; loads ascend, seconds never fall. Empty = none.
        sync_s: synchronisation term: seconds, or pairs of group size and seconds (``8:0.0002/64:0.0009``).

    Raises:
        InputError: a value outside the ranges above, or both `per_token_s` and `knots`.

    Source: ours. Form and default share are from LLMServingSim's measurements of unequal decodes: the share of batches of
    32 to 128 decodes alone on the two Llama-3.1-8B profiles (``evenstep reproduce decode-skew``). C and t_l are those of
    `linear`, so that the two laws differ in the share alone.
    """

    share: float = 0.044
    overhead_s: float = 0.0049
    per_token_s: float = _PER_TOKEN_S
    knots: Pairs = ()
    sync_s: Sync = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and 0 <= self.share <= 1):
            raise InputError("unequal", "share", self.share, "a share in 0..1")
        for name in ("overhead_s", "per_token_s"):
            check_seconds("unequal", name, getattr(self, name))
        object.__setattr__(self, "sync_s", check_sync("unequal", "sync_s", self.sync_s))
        if not self.knots:
            return
        if self.per_token_s != _PER_TOKEN_S:
            raise InputError("unequal", "per_token_s", self.per_token_s, "none beside knots", "Leave one out.")
        object.__setattr__(self, "knots", line_knots("unequal", "knots", self.knots))

    def local_seconds(self, load: F8, running: I8, longest: F8) -> F8:
        """float64[G] seconds from KV tokens, requests, and KV tokens of the longest of them."""
        table = self.table()
        return table.local_seconds(table.effective_load(load, running, longest))

    def table(self) -> PiecewiseLinear:
        if self.knots:
            return replace(as_lines(pairs_of("unequal", "knots", self.knots)), longest_share=self.share)
        return PiecewiseLinear(np.array([0.0, 1.0]), np.array([[0.0, self.per_token_s]]), self.share)

    def overhead_seconds(self, group_size: int) -> float:
        return self.overhead_s + sync_seconds("unequal", self.sync_s, group_size)


law = Unequal
