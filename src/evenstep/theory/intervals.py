"""Competitive ratios of Interval scheduling's policies: summed latency over that of H-SF, as memory -> inf.

H-SF knows the output lengths and admits the shortest first; it is not optimal. A_random knows them too, and admits in a
random order. The others plan with bounds l and u of the outputs: A_max with u, A_min with l at first, A_ell with l, then u.
Simulations may exceed these ratios. Theorem 8.6's part 1 with Theorem 5.1 would bound A_min by 1.5, while Corollary 4.8
gives 2.33 at an upper bound of 100.
"""

from __future__ import annotations

import math

import numpy as np

from evenstep.errors import InputError, check_range
from evenstep.request import F8


def a_max_ratio(alpha: float) -> tuple[float, float]:
    """A lower and an upper bound of A_max's competitive ratio, its worst latency over H-SF's.

    They are (1 + alpha^-1/2) / (2 alpha) and (1 + 1 / alpha) / (2 alpha). alpha is the lower over the upper bound of the
    output lengths; an `InputError` unless 0 < alpha <= 1. Source: Interval scheduling, Theorems 3.3 and 3.4.
    """
    _check(alpha)
    return (1 + alpha**-0.5) / (2 * alpha), (1 + 1 / alpha) / (2 * alpha)


def a_max_on_instance(alpha: float, mix: float) -> float:
    """A_max's latency over H-SF's on the instance that proves Theorem 3.4, as the proof computes both.

    (x + alpha)(1 + x) / (alpha (x^2 + 2 alpha x + 1)). For alpha < 1 it is below the bound that the theorem prints.

    Args:
        alpha: lower over upper bound of the output lengths, l / u, 0 < alpha <= 1; else `InputError`.
        mix: x = a / b. The instance has a * u requests of output l and b * l requests of output u.

    Source: Interval scheduling, proof of Theorem 3.4, for a and b -> inf.
    """
    _check(alpha)
    return (mix + alpha) * (1 + mix) / (alpha * (mix**2 + 2 * alpha * mix + 1))


def a_random_ratio(alpha: float) -> float:
    """An upper bound of A_random's competitive ratio, (1 + 1 / alpha) / 2; alpha is the lower over the upper output bound.

    `InputError` unless 0 < alpha <= 1. Source: Interval scheduling, Theorem 8.6.
    """
    _check(alpha)
    return (1 + 1 / alpha) / 2


def a_min_forms(longest: int) -> tuple[F8, F8]:
    """Matrices A and B, float64[u, u] each: x'Ax / x'Bx is A_min's latency over H-SF's with x_i requests of output i.

    A_ij = min(i,j)^2 / (i j) ((i+j)^2 / 2 - min(i,j)^2), B_ij = min(i,j)^2, u = `longest`; index 0 is an output of 1 token.
    Source: Interval scheduling, Lemma 4.6 with prompts of 0 and a lower bound of 1.
    """
    i = np.arange(1, longest + 1, dtype=float)
    least = np.minimum.outer(i, i)
    both = np.add.outer(i, i)
    return least**2 / np.multiply.outer(i, i) * (both**2 / 2 - least**2), least**2


def a_min_ratio(counts: F8) -> float:
    """A_min's latency over H-SF's with `counts` float64[u] requests of outputs 1..u, prompts of 0 and a lower bound of 1."""
    form, base = a_min_forms(counts.size)
    return float(counts @ form @ counts / (counts @ base @ counts))


def a_min_mixed(counts: F8, prompt: int, lower: int) -> float:
    """A_min's latency over H-SF's for prompts of one length s and a lower bound l, as in the paper's proof.

    The numerator is the sum over k of d_k (sum of i x_i) (sum of d_k x_i / (s + i) + 2 sum of (i - k) x_i / (s + i)), where
    i runs from k. The denominator is the sum of k (s + k) x_k (x_k + 2 sum of x_i, i > k). d_k is s + l at k = l, else 1.

    Args:
        counts: float64[u], requests of each output 1..u; entries below `lower` are ignored.
        prompt: s >= 0, tokens.
        lower: l, from 1 to u, tokens; else `InputError`.

    Source: Interval scheduling, Lemma 4.6. The proof's A_min evicts more requests than the paper's Algorithm 2. See
        `evenstep reproduce interval-ratio`.
    """
    check_range("a-min", f"an integer from 1 to {counts.size}", low=1, high=counts.size, lower=lower)
    i = np.arange(lower, counts.size + 1, dtype=float)
    x = counts[lower - 1 :]
    done = np.ones_like(i)
    done[0] = prompt + lower
    share = x / (prompt + i)
    left = 2 * (_from(i * share) - i * _from(share))
    waits = (done * _from(i * x) * (done * _from(share) + left)).sum()
    return float(waits / (i * (prompt + i) * x * (2 * _from(x) - x)).sum())


def _from(x: F8) -> F8:
    """Sums of x from each index to the end, float64 of the length of x."""
    return np.cumsum(x[::-1])[::-1]


def a_min_worst(longest: int) -> tuple[float, F8]:
    """A_min's competitive ratio, the largest over mixes x >= 0 of outputs 1..u, and a mix float64[u] that attains it.

    u is `longest`, and the largest count of the mix is 1. The ratio is the largest eigenvalue of B^-1 A, found by power
    iteration; B^-1 is tridiagonal (proof of Theorem 4.3). An InputError if the eigenvector has entries of both signs.
    """
    form, _ = a_min_forms(longest)
    i = np.arange(1, longest + 1, dtype=float)
    middle = 4 * i / (4 * i**2 - 1)
    middle[-1] = 1 / (2 * longest - 1)
    side = 1 / (2 * i[:-1] + 1)
    mix, value = np.ones(longest), 0.0
    for _ in range(1000):
        right = form @ mix
        found = middle * right
        found[:-1] -= side * right[1:]
        found[1:] -= side * right[:-1]
        last, value = value, float(np.abs(found).max() / np.abs(mix).max())
        mix = found / np.abs(found).max()
        if abs(value - last) <= 1e-15 * value:
            break
    if (mix < -1e-9).any():
        raise InputError("a-min", "longest", longest, "a length whose worst mix has one sign")
    return a_min_ratio(mix), np.maximum(mix, 0.0)


def a_min_bound(longest: int) -> float:
    """An upper bound of A_min's competitive ratio: the harmonic number of `longest` (Interval scheduling, Theorem 4.7)."""
    return math.fsum(1 / i for i in range(1, longest + 1))


def a_min_fit(longest: float) -> float:
    """0.2555 ln(u + 0.2793) + 1.1587 with u = `longest`: the fit of `a_min_worst` in Interval scheduling, Fig. 1."""
    return 0.2555 * math.log(longest + 0.2793) + 1.1587


def a_min_two_points(alpha: float) -> float:
    """(3 - alpha) / 2: an upper bound of A_min's competitive ratio for outputs of two lengths, of quotient alpha <= 1.

    `InputError` unless 0 < alpha <= 1. Source: Interval scheduling, Theorem 5.1.
    """
    _check(alpha)
    return (3 - alpha) / 2


def a_min_weighted_geometric(q: float) -> float:
    """A_min's latency over H-SF's where an output is k with probability k p^2 q^(k-1), q = 1 - p; at most 14/9.

    `InputError` unless 0 <= q <= 1. Source: Interval scheduling, Theorem 5.3. The most probable output is near
    1 / log(1/q), not log(1/q).
    """
    check_range("a-min", "a number from 0 to 1", low=0, high=1, q=q)
    above = (1 + q) ** 2 * (1 + 3 * q + 6 * q**2 + 3 * q**3 + q**4)
    return above / (1 + 2 * q + 11 * q**2 + 8 * q**3 + 11 * q**4 + 2 * q**5 + q**6)


def a_ell_ratio(alpha: float, short: float, long: float) -> float:
    """A_ell's latency over H-SF's with x = `short` requests of output alpha u and y = `long` requests of output u.

    1 + (alpha^2 x y + 2 alpha^2 y^2) / (alpha^2 x^2 + 2 alpha^2 x y + y^2) (Interval scheduling, proof of Theorem 5.2).
    `InputError` unless 0 < alpha <= 1.
    """
    _check(alpha)
    a = alpha**2
    return 1 + (a * short * long + 2 * a * long**2) / (a * short**2 + 2 * a * short * long + long**2)


def a_ell_bound(alpha: float) -> float:
    """An upper bound of A_ell's competitive ratio for outputs of two lengths, the shorter alpha times the longer.

    1 + alpha / (2 (1 - alpha)) for alpha <= 1/2, 1 + 2 alpha^2 above. `InputError` unless 0 < alpha <= 1. Source: Interval
    scheduling, Theorem 5.2.
    """
    _check(alpha)
    return 1 + alpha / (2 * (1 - alpha)) if alpha <= 0.5 else 1 + 2 * alpha**2


def _check(alpha: float) -> None:
    """Raise an InputError unless 0 < alpha <= 1."""
    check_range("intervals", "a ratio above 0, at most 1", above=0, high=1, alpha=alpha)
