"""Defines metrics as small pure functions of the record tables' columns, of conditions and of totals.

`measure.tally` applies them chunk by chunk; `docs/reference/metrics.md` has the formulas. K is the number of rows of a step
table, N of a request table; `size` is float64[K], the number of workers in each row's barrier group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evenstep.errors import check_range
from evenstep.measure.records import Conditions, RequestTable, StepTable
from evenstep.request import F8, I8

#: The steady window begins with the first step, and ends with the last, in which this share of all slots is busy.
FULL_SHARE = 0.98
#: With fewer full steps than this the window is every step with a running request.
FEWEST_FULL_STEPS = 10


@dataclass(frozen=True, slots=True)
class Slo:
    """A service-level objective: a request meets it if both of its times are at or below the limits.

    Raises: InputError for a limit that is not above 0.
    """

    ttft_s: float = float("inf")  # time to first token; inf = no limit
    tpot_s: float = float("inf")  # time per output token; inf = no limit

    def __post_init__(self) -> None:
        for field in fields(self):
            check_range("slo", "seconds above 0", above=0, **{field.name: getattr(self, field.name)})


def known(value: Any) -> Any:
    """Replace float nan, which JSON lacks, by None, also inside dicts and lists; every other value, infinity too, stays."""
    if isinstance(value, dict):
        return {name: known(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [known(one) for one in cast("list[Any]", value)]
    return None if isinstance(value, float) and math.isnan(value) else value


def imbalance_envelope(envelope: F8, load_sum: F8, size: F8) -> F8:
    """Imbalance of each step, float64[K] idle KV tokens: workers times envelope (the largest load), minus the sum of loads.

    All arguments are float64[K]; `size` is the number of workers. Source: BF-IO eq. 7; BalanceRoute's measure is `spread`.
    """
    return size * envelope - load_sum


def spread(envelope: F8, load_min: F8) -> F8:
    """Largest minus smallest load of a group's workers at each step, float64[K] KV tokens. Source: BalanceRoute."""
    return envelope - load_min


def idle_share(heaviest: F8, total: F8, size: F8, fixed: F8 | float = 0.0) -> F8:
    """``1 - mean / maximum`` over the workers of a group, at each step; the values are their loads or their seconds.

    Loads give ``idle_share`` of the summary. Seconds of local work and C give ``idle_time_share``, the share of time that
    workers wait at the barrier. The gateway's ``barrier_idle_ratio`` uses it, too.

    Args:
        heaviest, total: float64[K], largest and summed load in KV tokens, or the same of local seconds.
        size: float64[K], workers of the group.
        fixed: what each worker spends at any load, in the same unit (C in seconds for ``idle_time_share``).

    Returns: float64[K] in [0, 1); 0 if no worker has work, since then no worker waits for another.
    Source: BF-IO sec. 6.2 and Fig. 1.
    """
    longest = heaviest + fixed
    mean = total / size + fixed
    return 1.0 - np.divide(mean, longest, out=np.ones_like(longest), where=longest > 0)


def lost_share(lost_s: float, worker_s: float) -> float:
    """Share of worker seconds lost at the barrier, ``lost_s / worker_s``, both summed over workers; nan if `worker_s` is 0.

    For hosts that count seconds, not steps. If all steps are equally long, it equals the summary's ``idle_time_share``.
    """
    return lost_s / worker_s if worker_s > 0 else float("nan")


def barrier_worth(tokens_per_s: float, lost: float) -> float:
    """Tokens a second that even loads would add to a measured rate: the same batches, in steps shorter by the share `lost`.

    `lost` is the summary's ``idle_time_share`` or a `lost_share`, in [0, 1). A value of 1 raises ZeroDivisionError.
    """
    return tokens_per_s * lost / (1.0 - lost)


def full(steps: StepTable, slots_total: int) -> NDArray[np.bool_]:
    """bool[K], true for steps at which at least 98 % of the fleet's slots (`slots_total`) run a request."""
    return steps.running_all >= FULL_SHARE * slots_total


def steady_window(is_full: NDArray[np.bool_]) -> tuple[str, int, int]:
    """Kind, first and last row (included) of the window for averages, without the filling and draining of the slots.

    `is_full` is bool[K] from `full`. Returns ``full-slots`` and the rows of the first and the last full step. With fewer
    than 10 full steps it returns ``running``, 0 and K - 1: all steps.
    """
    rows = np.flatnonzero(is_full)
    if rows.size < FEWEST_FULL_STEPS:
        return "running", 0, is_full.size - 1
    return "full-slots", int(rows[0]), int(rows[-1])


def tpot(requests: RequestTable) -> F8:
    """Time per output token, float64[N] seconds: admission to completion, over output tokens. Source: BF-IO eq. 9."""
    return (requests.finished_s - requests.admitted_s) / requests.output_tokens


def ttft(requests: RequestTable) -> F8:
    """Time to first token, float64[N] seconds: from becoming visible to the end of the first decode step."""
    return requests.first_token_s - requests.visible_s


def end_to_end(requests: RequestTable) -> F8:
    """End-to-end latency, float64[N] seconds: from becoming visible to completion."""
    return requests.finished_s - requests.visible_s


def wait(requests: RequestTable) -> F8:
    """Wait, float64[N] seconds: from becoming visible (arrival, or entry into a saturated pool) to admission."""
    return requests.admitted_s - requests.visible_s


def meets(slo: Slo, ttft_s: F8, tpot_s: F8) -> NDArray[np.bool_]:
    """bool[N], true if TTFT and TPOT of a request, float64[N] seconds each, are both at or below the limits; nan fails."""
    return (ttft_s <= slo.ttft_s) & (tpot_s <= slo.tpot_s)


def goodput(good: int, good_tokens: int, requests: int, makespan_s: float) -> dict[str, float]:
    """Goodput by name: requests and tokens a second, of requests that meet an objective, and ``slo_share``, their share.

    Args:
        good, good_tokens: completed requests that meet it (`meets`), and their output tokens.
        requests: all completed requests; with 0 the share, in [0, 1], is nan.
        makespan_s: length of the run, seconds; with 0 both rates are nan.
    """
    nan = float("nan")
    return {
        "goodput_requests_per_s": good / makespan_s if makespan_s > 0 else nan,
        "goodput_tokens_per_s": good_tokens / makespan_s if makespan_s > 0 else nan,
        "slo_share": good / requests if requests else nan,
    }


def mean_load(conditions: Conditions, load_steps: float, active_steps: int) -> float:
    """Mean KV load of a worker with all slots busy, tokens, under any policy: ``Lbar = B * load_steps / active_steps``.

    B is the mean number of slots of a worker. `load_steps` and `active_steps` (above 0) are the sums in `Totals`.
    """
    return conditions.slots_total / conditions.workers * load_steps / active_steps


def full_slot_tokens_per_s(conditions: Conditions, load: float, idle: F8, tokens_per_active_step: float = 1.0) -> float:
    """Tokens a second that the fleet would make with all slots busy, at the load of `mean_load`: a fair throughput.

    ``G*B / (C + t_l * Lbar / (1 - idle))``, summed over barrier groups. Measured rates of truncated or draining runs favour
    policies that pick small requests; this figure does not.

    Args:
        conditions: slots, group sizes, C and t_l.
        load: ``Lbar`` of `mean_load`, KV tokens.
        idle: float64[groups], mean load imbalance (`idle_share`) of each group in the steady window, below 1.
        tokens_per_active_step: tokens a running request makes a step (1 but for speculative decoding).

    Returns: nan if t_l is nan (a law that is not linear has no such closed form) or a step takes no time.
    """
    total = 0.0
    for size, overhead_s, share in zip(conditions.group_sizes, group_overheads(conditions), idle, strict=True):
        seconds = overhead_s + conditions.seconds_per_token * load / (1.0 - share)
        slots = conditions.slots_total * size / conditions.workers
        total += slots * tokens_per_active_step / seconds if seconds > 0 else float("nan")
    return total


def policy_free_bound_s(conditions: Conditions, load_steps: float, active_steps: int, longest: int) -> float:
    """A lower bound on the makespan of any policy, seconds: every slot busy and loads even, or the longest request alone.

    With one group it is ``C * max(ceil(tokens / GB), max o) + t_l * work / G``. Several groups step independently: then it
    is ``max(C * max o, C * tokens / GB + t_l * work / G)``, with the smallest C of the groups. If the workers of several
    groups differ in slots, it is ``max(C * max o, C * tokens / GB, t_l * work / G)``. nan if t_l is nan.

    Args:
        conditions: slots (GB in all), group sizes, C and t_l.
        load_steps: KV tokens times steps of the whole run (``work``).
        active_steps: request steps of the whole run (``tokens`` at one token a step).
        longest: decode steps of the longest request (``max o``).
    """
    overheads = group_overheads(conditions)
    work_s = conditions.seconds_per_token * load_steps / conditions.workers
    if len(overheads) == 1:
        return overheads[0] * max(-(-active_steps // conditions.slots_total), longest) + work_s
    alone_s, steps_s = min(overheads) * longest, min(overheads) * active_steps / conditions.slots_total
    if conditions.slots_total == conditions.slots * conditions.workers:
        return float(np.maximum(alone_s, steps_s + work_s))  # unlike max, nan if one is
    return float(np.maximum(max(alone_s, steps_s), work_s))


def group_overheads(conditions: Conditions) -> tuple[float, ...]:
    """C (seconds) of each barrier group, in order; a single value in `Conditions.overhead_s` is repeated for all groups."""
    if len(conditions.overhead_s) == 1:
        return conditions.overhead_s * len(conditions.group_sizes)
    return conditions.overhead_s


def of_group(values: tuple[int, ...] | tuple[float, ...], group: I8) -> F8:
    """float64[K], for each row the value of its group: `values` has one for each group, int64[K] `group` has the indices."""
    return np.array(values, np.float64)[group]
