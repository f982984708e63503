"""The linear law of the papers: a step lasts C + t_l times the heaviest worker's load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstep import names
from evenstep.cost.knots import OfLoad, Sync
from evenstep.cost.view import PiecewiseLinear, StepTime
from evenstep.errors import InputError
from evenstep.request import F8, I8


@dataclass(frozen=True, slots=True)
class Linear(OfLoad):
    """``dt = overhead_s + sync_s + per_token_s * L*``, L* the heaviest worker's KV tokens; `OfLoad` has the first two.

    Args:
        per_token_s: t_l, seconds a resident KV token.

    Raises:
        InputError: a negative or non-finite value, or group sizes that are not whole or do not ascend.

    Source: BF-IO sec. 6.2; defaults are the spec's fit to BF-IO's step times at G = 16, B = 72.
    """

    name: ClassVar[str] = "linear"
    overhead_s: float = 0.0049
    per_token_s: float = 1.1e-7
    sync_s: Sync = 0.0

    def __post_init__(self) -> None:
        self.check("overhead_s", "per_token_s")

    def local_seconds(self, load: F8, running: I8, longest: F8) -> F8:
        return self.per_token_s * load

    def table(self) -> PiecewiseLinear:
        return PiecewiseLinear(np.array([0.0, 1.0]), np.array([[0.0, self.per_token_s]]))


def law_of(text: str | None, *, overhead_s: float, per_token_s: float, sync_s: float | str) -> StepTime:
    """Build a step-time law from text such as ``piecewise:knots=0:0/40000:0.003``, or for None `Linear` by the keywords.

    Raises:
        InputError: an unknown law or option, a value out of range, or what is no step-time law.
    """
    if text is None:
        return Linear(overhead_s=overhead_s, per_token_s=per_token_s, sync_s=sync_s)
    law = names.build("cost", names.parse(text))
    if not isinstance(law.table(), PiecewiseLinear):
        raise InputError("law", "law", text, "a law whose table() is a PiecewiseLinear")
    return law


law = Linear
