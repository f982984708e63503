"""Fits the seconds of a barrier group's step to its load, as chunks arrive.

Least squares of the seconds between two steps on the group's envelope, forgetting slowly: ``seconds = overhead_s +
seconds_per_token * envelope``, the linear law of the simulator.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from evenstep.compiled import part
from evenstep.dispatch.steps.state import GroupColumns

#: Factor of the weight of earlier steps at each new one, so that about the last thousand count; fewest steps for a law.
KEEP, FEWEST = 0.999, 50
#: A law has at most this ratio of two standard errors of its slope to the slope, and of its fixed part to a mean step.
ERROR = 0.25


@part
def add(groups: GroupColumns, group: int, envelope: float, seconds: float) -> None:
    """Count a step, add it to the group's fit, and renew the law. Each step multiplies the weight of earlier ones by 0.999.

    `envelope`: KV tokens of the group's heaviest worker at the start of the step. `seconds`: length of the step.
    """
    groups.steps[group] += 1
    groups.weight[group] = KEEP * groups.weight[group] + 1.0
    # means and centred moments, so that large loads do not eat the digits of small differences
    share = 1.0 / groups.weight[group]
    dx, dy = envelope - groups.load_mean[group], seconds - groups.seconds_mean[group]
    groups.load_mean[group] += share * dx
    groups.seconds_mean[group] += share * dy
    x, y = envelope - groups.load_mean[group], seconds - groups.seconds_mean[group]
    groups.load_moment[group] = KEEP * groups.load_moment[group] + dx * x
    groups.both_moment[group] = KEEP * groups.both_moment[group] + dx * y
    groups.seconds_moment[group] = KEEP * groups.seconds_moment[group] + dy * y
    groups.seconds_per_token[group], groups.overhead_s[group] = _law(groups, group)


@part
def _law(groups: GroupColumns, group: int) -> tuple[float, float]:
    """Seconds a token and fixed seconds of a step of the group; both nan if the steps so far do not determine them.

    Loads that hardly differ, or steps that take their time for other reasons, tell nothing of the cost of a token.
    """
    x, y = groups.load_mean[group], groups.seconds_mean[group]
    xx, xy = groups.load_moment[group], groups.both_moment[group]
    if groups.steps[group] < FEWEST or not xx > 0.0:
        return np.nan, np.nan
    slope = xy / xx
    fixed = y - slope * x
    rest = max(0.0, groups.seconds_moment[group] - slope * xy) / (groups.weight[group] - 2.0)
    of_slope = 4.0 * (rest / xx)
    of_fixed = 4.0 * (rest / groups.weight[group]) + x * x * of_slope
    if not (slope > 0.0 and of_slope <= (ERROR * slope) * (ERROR * slope)):
        return np.nan, np.nan
    if of_fixed > (ERROR * y) * (ERROR * y) or (fixed < 0.0 and fixed * fixed > of_fixed):
        return np.nan, np.nan
    return slope, max(0.0, fixed)


class StepFit(NamedTuple):
    """The fitted law of one group: seconds of a step against KV tokens of its heaviest worker."""

    seconds_per_token: float  # t_l, seconds of a step for each KV token; nan while it is not known well enough (`error`)
    overhead_s: float  # C, the fixed seconds of a step, 0 or more; nan as long as `seconds_per_token`
    r_squared: float  # share (0..1) of the variance of step seconds that the law explains; nan without a law
    #: ratio of two standard errors of the slope to its absolute value; inf for a slope of 0. It is nan before 50 steps, and
    #: while loads do not differ. There is no law above 0.25, or with a slope of 0 or below.
    error: float


def fit_of(groups: Any, group: int) -> StepFit:
    """The present fit of a group, from its `GroupColumns`."""
    xx, xy, yy = groups.load_moment[group], groups.both_moment[group], groups.seconds_moment[group]
    law, r_squared, error = (groups.seconds_per_token[group], groups.overhead_s[group]), math.nan, math.nan
    if not math.isnan(law[0]) and yy > 0.0:
        r_squared = min(1.0, xy * xy / (xx * yy))
    if groups.steps[group] >= FEWEST and xx > 0.0:
        slope, rest = xy / xx, max(0.0, yy - xy / xx * xy) / (groups.weight[group] - 2.0)
        error = 2.0 * math.sqrt(rest / xx) / abs(slope) if slope else math.inf
    return StepFit(*law, r_squared, error)
