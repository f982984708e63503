"""A step-time law that depends on the longest context of a worker as well as on its KV load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from evenstep.cost.knots import OfLoad, Pairs, Sync, as_lines, line_knots, pairs_of
from evenstep.cost.view import PiecewiseLinear
from evenstep.errors import InputError, check_range

_PER_TOKEN_S = 1.1e-7


@dataclass(frozen=True, slots=True)
class Unequal(OfLoad):
    """``dt = overhead_s + sync_s + max_g line(L_g + share * (n_g * longest_g - L_g))``.

    A worker of n requests takes the time of its load L, plus a share of the extra time that it would take if all n requests
    were as long as the longest. The line is ``per_token_s * load``, or goes through `knots` as that of `piecewise`. `OfLoad`
    has the meaning of `overhead_s` and `sync_s`.

    Args:
        share: of the way to the longest, 0..1; 0 is the law without it.
        per_token_s: t_l, seconds a resident KV token; leave it out if knots are given.
        knots: pairs of KV load in tokens and seconds without overhead; loads ascend, seconds never fall. Empty = no knots.

    Raises:
        InputError: a value outside the ranges above, or `knots` with a `per_token_s` other than the default.

    Source: ours. Form and default share are from LLMServingSim's measurements of unequal decodes: the share of batches of 32
    to 128 decodes alone on the two Llama-3.1-8B profiles (``evenstep reproduce decode-skew``). C and t_l are those of
    `linear`, so that the two laws differ in the share alone.
    """

    name: ClassVar[str] = "unequal"
    share: float = 0.044
    overhead_s: float = 0.0049
    per_token_s: float = _PER_TOKEN_S
    knots: Pairs = ()
    sync_s: Sync = 0.0

    def __post_init__(self) -> None:
        check_range("unequal", "a share in 0..1", low=0, high=1, share=self.share)
        self.check("overhead_s", "per_token_s")
        if not self.knots:
            return
        if self.per_token_s != _PER_TOKEN_S:
            raise InputError("unequal", "per_token_s", self.per_token_s, "no value when knots are given", "Leave one out.")
        object.__setattr__(self, "knots", line_knots("unequal", "knots", self.knots))

    def table(self) -> PiecewiseLinear:
        if self.knots:
            return replace(as_lines(pairs_of("unequal", "knots", self.knots)), longest_share=self.share)
        return PiecewiseLinear(np.array([0.0, 1.0]), np.array([[0.0, self.per_token_s]]), self.share)


law = Unequal
