"""The fluid equilibrium of one batching engine whose iterations last ``d0 + d1 * (KV tokens of the batch)``.

Symbols: type j has arrivals ``lambda_j``, prompts of ``l_j`` and outputs of ``l'_j`` tokens. It runs l'_j + 1 iterations,
its prefill and a decode a token. ``n_j`` are its requests at each of these stages; ``W_j`` its KV token-iterations.

Source: WAIT sec. 3, with errors corrected by a new derivation: Prop. 1 prints d0 in place of d1; eq. 5 loses
a factor l' + 1 (it switches from requests of a type to requests at a stage); eq. 8 loses d0 and d1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenstep.errors import InputError, check_range
from evenstep.request import F8


@dataclass(frozen=True, slots=True)
class Types:
    """Requests of known types on one engine.

    Raises:
        InputError: no type, lists of unequal length, or a number that is out of range or not finite.
    """

    arrivals_per_s: Sequence[float]  # lambda_j, requests a second
    prompt_tokens: Sequence[float]  # l_j
    output_tokens: Sequence[float]  # l'_j
    d0_s: float  # seconds of an empty iteration, > 0
    d1_s: float  # seconds more for each KV token of its batch

    def __post_init__(self) -> None:
        count = len(self.arrivals_per_s)
        for name in ("arrivals_per_s", "prompt_tokens", "output_tokens"):
            values = np.asarray(getattr(self, name), float)
            if values.shape != (count,) or not count:
                raise InputError("types", name, getattr(self, name), "one number a type, for one type at least")
            if not (np.isfinite(values) & (values >= 0)).all():
                raise InputError("types", name, getattr(self, name), "finite numbers >= 0")
        check_range("types", "a finite number of seconds > 0", above=0, finite=True, d0_s=self.d0_s)
        check_range("types", "a finite number of seconds >= 0", low=0, finite=True, d1_s=self.d1_s)

    @property
    def work(self) -> F8:
        """W_j = (l'_j + 1) (l_j + l'_j / 2), float64[m], KV token-iterations of a request."""
        prompt, output = np.asarray(self.prompt_tokens, float), np.asarray(self.output_tokens, float)
        return (output + 1) * (prompt + output / 2)

    @property
    def load(self) -> float:
        """rho = d1 sum_j lambda_j W_j; the engine keeps up if and only if rho < 1."""
        return float(self.d1_s * np.dot(self.arrivals_per_s, self.work))

    def at_load(self, load: float) -> Types:
        """The types with all arrivals scaled by one factor to this `load`; an InputError if their own load is 0."""
        if self.load == 0:
            raise InputError("types", "load", 0, "arrivals and a d1_s above 0, to scale them")
        rate = load / self.load
        return replace(self, arrivals_per_s=[rate * share for share in self.arrivals_per_s])

    def iteration_s(self, per_stage: F8) -> float:
        """d0 + d1 M: seconds of an iteration with n_j requests, `per_stage` float64[m], at each stage of type j."""
        return float(self.d0_s + self.d1_s * np.dot(per_stage, self.work))


@dataclass(frozen=True, slots=True, eq=False)
class Equilibrium:
    """The state in which as many requests arrive in an iteration as leave."""

    iteration_s: float  # tau*, seconds of an iteration
    kv_tokens: float  # M*, KV tokens of the batch
    per_stage: F8  # float64[m], n_j requests of type j at each of its l'_j + 1 stages
    tokens_per_s: float  # throughput counted as the paper does, prefills as one token: sum lambda_j (l'_j + 1)


def equilibrium(types: Types) -> Equilibrium:
    """tau* = d0 / (1 - rho), M* = d0 sum lambda_j W_j / (1 - rho), n_j = lambda_j tau*, with rho the `Types.load`.

    An InputError for rho >= 1, where there is no equilibrium. Source: WAIT eqs. 2-8, corrected.
    """
    rho = types.load
    if not rho < 1:
        hint = "The engine cannot keep up: fewer arrivals, shorter requests or a faster engine."
        raise InputError("types", "load", f"{rho:.4g}", "d1 sum lambda_j W_j < 1", hint)
    rates = np.asarray(types.arrivals_per_s, float)
    tau = types.d0_s / (1 - rho)
    return Equilibrium(
        iteration_s=tau,
        kv_tokens=float(tau * np.dot(rates, types.work)),
        per_stage=rates * tau,
        tokens_per_s=float(np.dot(rates, np.asarray(types.output_tokens, float) + 1)),
    )
