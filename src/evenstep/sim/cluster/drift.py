"""How the KV load of a request changes from one decode step to the next: its profile."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenstep.config.number import check_integers
from evenstep.errors import InputError, check_range
from evenstep.request import F8, I8, Trace
from evenstep.wording import counted

#: Fractional loads are whole multiples of this many tokens, so that sums are exact in any order.
GRAIN = 2.0**-20
#: Most tokens that a load may change by in a step, so that sums of loads, counted in grains, are exact.
STEEPEST = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """A load per request and step: row i of the trace has ``values[offsets[i]:offsets[i+1]]``, one load a decode step.

    Args:
        values: float64[total], KV tokens (or any work unit), >= 0, the first step of a request first; a simulator rounds
            them to `GRAIN`.
        offsets: int64[N+1], from 0 to total; each request has one load at least.
    """

    values: F8
    offsets: I8

    def head(self, requests: int) -> Profiles:
        """The profiles of the first `requests` requests, or of all if there are fewer; views, not copies."""
        offsets = self.offsets[: requests + 1]
        return Profiles(self.values[: offsets[-1]], offsets)


@dataclass(frozen=True, slots=True)
class Drift:
    """Profile of a request with prompt s: its j-th decode step has load ``w(j) = s + delta_1 + ... + delta_{j-1}``.

    ``Drift()`` is LLM decode (+1 a step). ``Drift(growth=0)`` is constant work, ``Drift(growth=3, tokens_per_step=3)``
    speculative decoding with three tokens accepted a step, ``Drift(growth=0.25)`` a compressed KV cache.

    Args:
        growth: delta, KV tokens gained a step; rounded to `GRAIN`.
        tokens_per_step: output tokens produced a step; a request of o tokens takes ``ceil(o / tokens_per_step)`` steps.
        sequence: delta_1, delta_2, ... common to all requests in place of `growth`; the last value repeats. May fall
            as well as rise; a load below zero counts as zero.
        profiles: the loads themselves, request by request, in place of both (BF-IO sec. 7.2: adaptive mesh
            refinement, tiled linear algebra); a request then takes as many steps as its profile has. Predictors are told
            steps in place of tokens, and no `max_tokens`.

    Raises:
        InputError: a value out of range.

    Source: BF-IO Definition 2 and sec. 7.2; falling profiles are left open there and defined here.
    """

    growth: float = 1.0
    tokens_per_step: int = 1
    sequence: tuple[float, ...] = ()
    profiles: Profiles | None = None

    def __post_init__(self) -> None:
        hint = "Give `sequence` for falling loads."
        check_range("drift", "a finite number of tokens >= 0 a step", hint, low=0, finite=True, growth=self.growth)
        check_integers("drift", 1, tokens_per_step=self.tokens_per_step)
        if not all(math.isfinite(x) for x in self.sequence):
            raise InputError("drift", "sequence", self.sequence, "finite numbers of tokens")
        object.__setattr__(self, "sequence", tuple(self.sequence))
        changes = (("sequence", change) for change in self.sequence)
        for field, tokens in [("growth", self.growth), ("tokens_per_step", self.tokens_per_step), *changes]:
            if abs(tokens) > STEEPEST:
                raise InputError("drift", field, tokens, f"at most {STEEPEST} tokens a step")

    @property
    def is_linear(self) -> bool:
        """Whether every load grows by `growth` a step: neither `sequence` nor `profiles` is given."""
        return not self.sequence and self.profiles is None

    @property
    def predicted_per_step(self) -> int:
        """Tokens that predictors count for one decode step. With `profiles` it is 1, since they count steps there."""
        return self.tokens_per_step if self.profiles is None else 1

    def steps(self, trace: Trace) -> I8:
        """int64[N], decode steps that each request takes in all.

        Raises:
            InputError: the profiles are not one per request, their offsets do not end where the loads do, a profile is
                empty, or a load is negative or not finite.
        """
        if self.profiles is None:
            made = self.tokens_per_step
            return trace.output_tokens if made == 1 else -(-trace.output_tokens // made)
        steps = np.diff(self.profiles.offsets)
        if steps.size != len(trace):
            raise InputError("drift", "profiles", counted(steps.size, "row"), f"one a request, {len(trace)}")
        first, last, loads = int(self.profiles.offsets[0]), int(self.profiles.offsets[-1]), self.profiles.values.size
        if (first, last) != (0, loads):  # compiled loops read profiles unchecked
            expected = f"offsets from 0 to {loads}, the number of loads"
            raise InputError("drift", "profiles", f"offsets from {first} to {last}", expected)
        if steps.size and steps.min() < 1:
            empty = f"an empty profile (request {int(steps.argmin())})"
            raise InputError("drift", "profiles", empty, "one load or more a request")
        if self.profiles.values.size and not (np.isfinite(self.profiles.values).all() and self.profiles.values.min() >= 0):
            raise InputError("drift", "profiles", "a negative or non-finite load", "loads >= 0")
        return steps.astype(np.int64)

    def gains(self, horizon: int) -> F8:
        """float64[H+1], KV tokens a newcomer has gained after h = 0..H steps; nan beyond h = 0 with per-request profiles."""
        if self.profiles is not None:
            return np.array([0.0] + [math.nan] * horizon)
        if not self.sequence:
            return np.arange(horizon + 1, dtype=np.float64) * np.float64(rounded(self.growth))
        return cumulated(self.sequence, horizon + 1)


def rounded(tokens: float) -> float:
    """The multiple of `GRAIN`, 2^-20 tokens, nearest to `tokens`."""
    return round(tokens / GRAIN) * GRAIN


def cumulated(sequence: tuple[float, ...], steps: int) -> F8:
    """float64[steps], tokens gained in all before step j = 0, 1, ...: 0, delta_1, delta_1 + delta_2, and so on.

    `sequence` has the deltas, one at least; its last value repeats. Each is first `rounded`.
    """
    deltas = [0.0, *map(rounded, sequence)]
    return np.cumsum((deltas + deltas[-1:] * (steps - len(deltas)))[:steps])


def units_per_token(drift: Drift) -> int:
    """Load units in a token: 1 if `growth`, `sequence` and profiles are whole tokens, else 2^20, so that sums are exact."""
    loads = () if drift.profiles is None else drift.profiles.values
    values = np.concatenate([[drift.growth], drift.sequence, loads])
    return 1 if np.array_equal(values, np.round(values)) else round(1 / GRAIN)
