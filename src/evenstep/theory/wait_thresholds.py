"""Thresholds of WAIT: the least whole numbers that the engine keeps up with. Symbols are those of `fluid`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8, I8
from evenstep.theory.fluid import Types, equilibrium
from evenstep.wording import counted

#: Most iterations of the fixed point; each adds at least one request, so most runs need far fewer.
_MOST = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class WaitThresholds:
    """Thresholds and what they cost."""

    thresholds: I8  # int64[m], n_j: requests of type j that have to wait before they run, and the most at each stage
    iteration_s: float  # seconds of an iteration of a full batch, d0 + d1 M
    kv_tokens: float  # M, KV tokens of a full batch, n_j requests at each stage of type j
    #: float64[m], seconds of a stage: as long as n_j arrivals take, or an iteration if that is longer; inf without arrivals
    stage_s: F8


def least(types: Types, kv_tokens: float | None = None) -> WaitThresholds:
    """The least n_j with d0 + d1 sum n_i W_i < n_j / lambda_j for every type, smallest in every type at once.

    From T = d0, n_j(T) = floor(lambda_j T) + 1 and T = d0 + d1 sum n_j W_j climb to their least fixed point.

    Args:
        kv_tokens: memory that a full batch has to fit; None = no limit.

    Raises:
        InputError: rho >= 1 or so near to 1 that no thresholds were found, or a full batch exceeds `kv_tokens`.

    Source: WAIT eq. 9, made strict, as its Theorem 1 needs for bounded latency; the solver is ours.
    """
    equilibrium(types)
    rates = np.asarray(types.arrivals_per_s, float)
    seconds = types.d0_s
    for _ in range(_MOST):
        thresholds = np.floor(rates * seconds).astype(np.int64) + 1
        longer = types.iteration_s(thresholds.astype(float))
        if longer == seconds:
            break
        seconds = longer
    else:
        raise InputError("types", "load", f"{types.load:.6g}", "further below 1", "The thresholds grow beyond use.")
    found = solved(types, thresholds)
    if kv_tokens is not None and found.kv_tokens > kv_tokens:
        needed = f"at least {math.ceil(found.kv_tokens):,}"
        hint = "The least thresholds do not fit: more memory, or fewer arrivals."
        raise InputError("wait thresholds", "kv_tokens", f"{kv_tokens:,.0f}", needed, hint)
    return found


def solved(types: Types, thresholds: I8) -> WaitThresholds:
    """The seconds and KV tokens that thresholds, int64[m], lead to, unchecked: the engine may not keep up (`doubts`)."""
    seconds = types.iteration_s(thresholds.astype(float))
    rates = np.asarray(types.arrivals_per_s, float)
    with np.errstate(divide="ignore"):
        stage = np.maximum(seconds, thresholds / rates)
    return WaitThresholds(thresholds, seconds, float(np.dot(thresholds, types.work)), stage)


def expected_latency_s(types: Types, solved: WaitThresholds) -> F8:
    """Approximate latency of a request of each type, float64[m], seconds (WAIT, proof of Theorem 1).

    It is the sum of l'_j + 1 stages of `stage_s`, half the time in which n_j - 1 more requests arrive, and the wait in the
    queue. The wait is Kingman's bound of the queue, lambda_j T / (2 (n_j - lambda_j T)), over the rate; T is the iteration.
    It is inf for a type without arrivals, and means nothing where n_j <= lambda_j T.
    """
    n, rates = solved.thresholds, np.asarray(types.arrivals_per_s, float)
    stages = np.asarray(types.output_tokens, float) + 1
    queues = solved.iteration_s / (2 * (n - rates * solved.iteration_s))
    with np.errstate(divide="ignore", invalid="ignore"):
        gathers = np.where(n > 1, (n - 1) / (2 * rates), 0.0)
    return stages * solved.stage_s + gathers + queues


def doubts(types: Types, thresholds: I8) -> list[str]:
    """A sentence, with numbers, for each type whose n_j requests arrive faster than an iteration of a full batch runs.

    `thresholds` are int64[m]. Empty if eq. 9 holds for all types, also with equality. Memory is not checked.
    """
    seconds = types.iteration_s(np.asarray(thresholds, float))
    return [
        f"type {j}: an iteration takes {seconds:.4g} s, longer than the {n / rate:.4g} s in which "
        + counted(n, "request arrives", "requests arrive")
        for j, (n, rate) in enumerate(zip(np.asarray(thresholds).tolist(), types.arrivals_per_s, strict=True))
        if rate > 0 and seconds > n / rate
    ]
