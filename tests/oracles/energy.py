"""The energy of one decode step of a barrier group under two accountings, from the power law of `cost.power`."""

from __future__ import annotations

import numpy as np

from evenstep.cost.power import Power, watts
from evenstep.request import F8, I8


def energy_j(power: Power, made: I8, local_s: F8, overhead_s: float, duration_s: float) -> tuple[float, float]:
    """Joules of one decode step of a barrier group under both accountings, (busy/idle, step average), over all workers.

    *Busy/idle*: worker g works ``overhead_s + local_s[g]`` seconds at the power of its tokens over those seconds, and waits
    at the barrier for the rest of the step at idle power. *Step average*: the same tokens spread over the whole step, which
    is another reading of BF-IO D47.

    Args:
        made: int64[G], output tokens that each worker makes in this step.
        local_s: float64[G], seconds of work that depend on the load.
        overhead_s: C with its synchronisation term, seconds.
        duration_s: seconds of the step, at least ``overhead_s + max(local_s)``.

    Source: BF-IO eq. 10, D47, and the note on idle time below it.
    """
    tokens = made.astype(np.float64)
    busy_s = overhead_s + local_s
    working = watts(power, _rate(tokens, busy_s))
    busy_idle = np.sum(working * busy_s + power.idle_w * (duration_s - busy_s))
    step_average = np.sum(watts(power, _rate(tokens, np.full(tokens.shape, duration_s)))) * duration_s
    return float(busy_idle), float(step_average)


def _rate(tokens: F8, seconds: F8) -> F8:
    """float64[G], tokens a second; 0 where no time passes, so that an instantaneous step costs nothing."""
    return np.divide(tokens, seconds, out=np.zeros_like(tokens), where=seconds > 0)
