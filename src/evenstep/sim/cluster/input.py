"""Checks the input of a simulated run before the start."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenstep.errors import InputError
from evenstep.predict.view import Predictor
from evenstep.request import Trace
from evenstep.routing.view import check_simulated, horizon_of
from evenstep.sim.cluster.drift import Drift, rounded, units_per_token
from evenstep.wording import counted

_MOST_PROJECTED = 20_000_000  # cells of the table of projections
_MOST_STEPS = 50_000_000  # length of the calendars of completions
_MOST_UNITS = 1 << 62  # load units of the whole fleet


def check_input(trace: Trace, policy: Any, cluster: Any, predictor: Predictor | None, name: str) -> None:
    """Check that a trace can run on a cluster under a policy, whose name is `name` in errors.

    Raises:
        InputError: the first fault: an empty trace, a length below 1, a missing predictor or column, a policy without
            `route` or that needs expected outputs, profiles that do not fit the trace, times unsorted or not finite,
            a prompt or first load larger than a worker's KV memory, or a horizon, length or load beyond the simulator's
            limits.
    """
    named = trace.name or "trace"
    if len(trace) == 0:
        raise InputError(named, "requests", 0, "one request or more")
    if not callable(getattr(policy, "route", None)):
        raise InputError(name, "policy", type(policy).__name__, "an object with a method route(view)")
    check_simulated(policy, name)
    if horizon_of(policy) > 0 and predictor is None:
        expected, hint = "a predictor for a policy that looks ahead", "Add predictor=oracle, for instance."
        raise InputError(name, "predictor", "missing", expected, hint)
    for column in ("prompt_tokens", "output_tokens"):
        values = getattr(trace, column)
        if values.dtype.kind not in "iu":
            hint = "Trace.from_columns takes columns of any kind."
            raise InputError(named, column, values.dtype, "an array of integers", hint)
        if values.min() < 1:
            row = int(np.argmax(values < 1))
            raise InputError(f"{named}: request {row}", column, int(values[row]), "an integer >= 1")
    horizon, longest = horizon_of(policy), int(cluster.drift.steps(trace).max())
    farthest = _MOST_PROJECTED // cluster.workers - 1
    if horizon > farthest:
        raise InputError(name, "horizon", horizon, f"at most {farthest:,} with {counted(cluster.workers, 'worker')}")
    if longest * len(cluster.group_sizes) > _MOST_STEPS:
        raise InputError(named, "output_tokens", longest, f"at most {_MOST_STEPS:,} decode steps a request")
    if cluster.arrivals == "timed":
        _check_times(trace)
    if cluster.arrivals == "closed" and cluster.think_s is None and trace.session is None:
        raise InputError(named, "sessions", "missing", "a trace with sessions, or think_s", "Give --users and --think-s.")
    profiles = cluster.drift.profiles
    admission = trace.prompt_tokens if profiles is None else profiles.values[profiles.offsets[:-1]]
    largest = int(admission.max()) + _gained(cluster.drift, longest) if profiles is None else int(profiles.values.max())
    most = _MOST_UNITS // (units_per_token(cluster.drift) * sum(cluster.slots_of))
    if largest > most:
        where, field = (named, "largest load") if profiles is None else ("drift", "profiles")
        raise InputError(where, field, largest, f"at most {most:,} on so many slots", "Give loads in a larger unit.")
    if cluster.kv_tokens < rounded(float(admission.max())):  # loads are kept in whole grains
        row, expected = int(np.argmax(admission)), f"at most kv_tokens, {cluster.kv_tokens:g}"
        found, hint = int(admission[row]), "It would fit no worker."
        raise InputError(f"{named}: request {row}", "prompt_tokens", found, expected, hint)


def _gained(drift: Drift, steps: int) -> int:
    """The most tokens that a request's load is above its load at admission in any of its first `steps` steps, rounded up."""
    changes = drift.sequence or (drift.growth,)
    known = np.cumsum([0.0, *changes][:steps])  # before each step; the last change repeats
    return math.ceil(max(known.max(), known[-1] + (steps - known.size) * changes[-1]))


def _check_times(trace: Trace) -> None:
    """Raise an InputError unless the trace has finite arrival times in ascending order."""
    if trace.arrival_s is None:
        raise InputError(trace.name or "trace", "arrivals", "timed", "a trace with times", "Give a rate (--rate).")
    strange = ~np.isfinite(trace.arrival_s)
    if strange.any():
        row = int(np.argmax(strange))
        raise InputError(f"{trace.name or 'trace'}: request {row}", "arrival_s", trace.arrival_s[row], "a finite time")
    if np.any(np.diff(trace.arrival_s) < 0):
        raise InputError(trace.name or "trace", "arrival_s", "unsorted", "times in ascending order")
