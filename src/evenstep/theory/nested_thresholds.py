"""Thresholds of Nested WAIT, and the memory they need.

Types are in order of their outputs, all of one prompt length l. Segment i owns the decodes l'_{i-1} + 1 .. l'_i, the first
also the prefill. ``p_i`` is the share of the requests in segment i that continue to the next.

Source: WAIT eqs. 10-12, 14-18, with the slips corrected: L' of eq. 11 sums lengths that are sums already; theta's lower
bound in Theorems 2 and 4 divides by n_i where eq. 18 divides by n_{i-1}; eq. 10 is strict (the paper's own thresholds have
equality, and the queue of a segment then has no drift back).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenstep.errors import InputError, check_range
from evenstep.request import F8, I8
from evenstep.theory.fluid import Types
from evenstep.wording import counted

#: The search gives up after so many steps, or if an iteration lasts longer than so many seconds.
_MOST, _LONGEST_S = 1_000_000, 1e6
#: Slacks that `solve` tries, standard deviations.
_KAPPAS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
#: For a larger theta, 1 - p is negligible against p e^theta.
_FAR = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class NestedThresholds:
    """Thresholds and the memory and time they need."""

    thresholds: I8  # int64[m], n_i of segments 1 .. m: requests that have to stand at a segment's head before it runs
    ends: I8  # int64[m - 1], l'_i, the output token with which segment i ends; the last segment has no entry
    go_on: F8  # float64[m - 1], p_i, the share of a segment's requests that go on to the next
    iteration_s: float  # seconds of an iteration of a full batch
    kv_tokens: float  # M^pi, KV tokens of a full batch
    enough_kv_tokens: float  # KV tokens of memory that suffice over `iterations` with probability 1 - `delta` (`with_slack`)
    kappa: float  # slack that the thresholds were solved with, standard deviations


def go_on(arrivals_per_s: Sequence[float]) -> F8:
    """The share of requests in each segment that go on to the next, float64[m - 1], for types in order of their outputs.

    p_i = sum_{j > i} lambda_j / sum_{j >= i} lambda_j; 0 where no request reaches segment i.
    """
    tails = np.cumsum(np.asarray(arrivals_per_s, float)[::-1])[::-1]
    return np.divide(tails[1:], tails[:-1], out=np.zeros(tails.size - 1), where=tails[:-1] > 0)


def segment_work(types: Types) -> F8:
    """KV token-iterations of a request that goes through each segment, float64[m]; their sum is W of the longest type.

    Types are in order of their outputs, and the first one's prompt counts for all.
    """
    prompt = float(types.prompt_tokens[0])
    ends = np.asarray(types.output_tokens, float)
    starts = np.concatenate([[0.0], ends[:-1]])
    work = (ends - starts) * (prompt + (starts + ends + 1) / 2)
    work[0] += prompt
    return work


def theta(above: int, own: int, share: float) -> float:
    """The root theta > 0 of exp(-theta n_i) (1 - p + p e^theta)^{n_{i-1}} = 1: the decay rate of segment i's queue tail.

    inf if the queue cannot exceed the threshold: n_i >= n_{i-1}, or p = 0.

    Args:
        above, own: n_{i-1} and n_i.
        share: p = p_{i-1}, the share of segment i - 1's requests that continue to segment i.

    Raises:
        InputError: the queue can exceed it and n_i <= p n_{i-1}, so there is no root.

    Source: WAIT eq. 16; Lemma 8 also needs n_i < n_{i-1}: else a feed never exceeds the threshold.
    """
    if own >= above or share == 0:
        return math.inf
    if not own > share * above:
        hint = "Otherwise more requests reach the segment than it takes."
        raise InputError("nested thresholds", "n_i", own, f"more than p n_(i-1) = {share:.4g} * {above}", hint)

    def exponent(x: float) -> float:
        grown = math.log1p(share * math.expm1(x)) if x < _FAR else x + math.log(share)
        return above * grown - own * x

    root = 1.0
    while exponent(root) < 0:
        root *= 2
    while True:  # the exponent is convex: Newton's steps from above the root only descend
        slope = above * share / (share + (1 - share) * math.exp(-root)) - own
        lower = root - exponent(root) / slope
        if not 0 < lower < root:
            return root
        root = lower


def enough_memory(types: Types, thresholds: I8, iterations: float, delta: float) -> float:
    """KV tokens that suffice over S = `iterations` iterations with probability 1 - delta.

    M^pi + sum_{i >= 2} (l + l'_{i-1}) (n_i + ln((m - 1) S / delta) / theta_i). An InputError if n_i <= p_{i-1} n_{i-1} for
    a segment that can queue (`theta`), and for `iterations` or `delta` out of range. Source: WAIT eq. 12; of its three forms
    of the logarithm the one its proof gives.
    """
    check_range("nested thresholds", "a probability above 0, below 1", above=0, below=1, delta=delta)
    check_range("nested thresholds", "a number > 0", above=0, iterations=iterations)
    n = np.asarray(thresholds).tolist()
    shares = go_on(types.arrivals_per_s)
    total = float(np.dot(n, segment_work(types)))
    for i in range(1, len(n)):
        more = math.log((len(n) - 1) * iterations / delta) / theta(n[i - 1], n[i], float(shares[i - 1]))
        total += (types.prompt_tokens[0] + types.output_tokens[i - 1]) * (n[i] + more)
    return total


def queue_at_most(above: int, own: int, share: float) -> float:
    """A bound of the mean number of requests at a segment's head: n_i + n_{i-1} p (1-p) / (2 (n_i - n_{i-1} p)).

    `above` is n_{i-1}, `own` is n_i and `share` is p = p_{i-1}. n_i > p n_{i-1} is required, not checked. Source: WAIT,
    Kingman's bound in its appendix.
    """
    return own + above * share * (1 - share) / (2 * (own - above * share))


def with_slack(types: Types, kappa: float, *, iterations: float, delta: float) -> NestedThresholds:
    """The least thresholds with n_1 > Lambda T and n_{i+1} = floor(p_i n_i + kappa sqrt(n_i p_i (1 - p_i))) + 1.

    Lambda is the sum of all arrivals a second, T the seconds of an iteration of a full batch. Each type is a segment.

    Args:
        types: in order of their outputs, all of one prompt.
        kappa: slack, standard deviations of the number of requests that reach a segment.
        iterations, delta: iterations over which `enough_kv_tokens` suffices, and the probability that it does not.

    Raises:
        InputError: `types` that `check_types` refuses, `iterations` <= 0, a `delta` that is not above 0 and below 1, or an
            engine that cannot keep up with such thresholds, or only with iterations beyond 1e6 s.
    """
    check_types(types)
    shares, work, whole = go_on(types.arrivals_per_s), segment_work(types), float(sum(types.arrivals_per_s))
    seconds, floor, sqrt = types.d0_s, math.floor, math.sqrt
    chances = [(p, kappa * sqrt(p * (1 - p))) for p in shares.tolist()]
    for _ in range(_MOST):
        n = [last := floor(whole * seconds) + 1]
        for p, spread in chances:
            n.append(last := floor(p * last + spread * sqrt(last)) + 1)
        longer = float(types.d0_s + types.d1_s * np.dot(n, work))
        if longer == seconds:
            thresholds = np.array(n, np.int64)
            needed = enough_memory(types, thresholds, iterations, delta)
            ends = np.asarray(types.output_tokens, np.int64)[:-1]
            return NestedThresholds(thresholds, ends, shares, seconds, float(np.dot(n, work)), needed, kappa)
        if longer > _LONGEST_S:
            break
        seconds = longer
    expected = f"d1 sum lambda W < 1 with room for whole thresholds and a slack of {kappa:g}"
    hint = "Each request counts as long as the longest of its segment: more segments, fewer arrivals or a faster engine."
    raise InputError("nested thresholds", "load", f"{types.load:.4g}", expected, hint)


def solve(types: Types, *, iterations: float = 1e6, delta: float = 0.01) -> NestedThresholds:
    """The thresholds with the fewest `enough_kv_tokens` among those of several slacks, 0 to 3 standard deviations.

    `iterations` and `delta` are those over which the memory suffices, and the probability that it does not. An InputError
    if `with_slack` raises one without slack.
    """
    found: list[NestedThresholds] = []
    for kappa in _KAPPAS:
        try:
            found.append(with_slack(types, kappa, iterations=iterations, delta=delta))
        except InputError:
            if kappa == _KAPPAS[0]:
                raise
    return min(found, key=lambda one: one.enough_kv_tokens)


def doubts(types: Types, thresholds: I8, kv_tokens: float, *, beside: float = 0.0, is_timed: bool = True) -> list[str]:
    """Sentences, with numbers, on the conditions of eq. 10 and of memory that thresholds break; empty if all hold.

    Args:
        types: in order of their outputs, all of one prompt; an InputError if `check_types` refuses them.
        thresholds: int64[m].
        kv_tokens: KV tokens of the engine's memory; inf = no limit.
        beside: KV tokens that full batches of other prompt lengths hold at the same time.
        is_timed: False if arrivals are only in proportion, or d0 and d1 unknown. The time of an iteration is then not
            checked.
    """
    check_types(types)
    n, shares = np.asarray(thresholds).tolist(), go_on(types.arrivals_per_s)
    held = float(np.dot(n, segment_work(types))) + beside
    seconds, gap = types.d0_s + types.d1_s * held, n[0] / sum(types.arrivals_per_s)
    found: list[str] = []
    if is_timed and not seconds < gap:
        found.append(
            f"an iteration takes {seconds:.4g} s, no less than the {gap:.4g} s in which "
            + counted(n[0], "request arrives", "requests arrive")
        )
    for i, p in enumerate(shares.tolist()):
        if not n[i + 1] > p * n[i]:
            found.append(f"n_{i + 2} / n_{i + 1} is {n[i + 1]} / {n[i]}; it has to be above {p:.4g}")
    return [*found, *doubts_of_memory(held, kv_tokens)]


def doubts_of_memory(held: float, kv_tokens: float) -> list[str]:
    """A list with one sentence if full batches hold (`held`) more KV tokens than the memory (`kv_tokens`); else empty."""
    if held <= kv_tokens:
        return []
    return [f"a full batch holds {held:.4g} KV tokens, the memory {kv_tokens:.4g}: the gates may block"]


def check_types(types: Types) -> None:
    """Raise an InputError for different prompt lengths, output lengths that do not strictly ascend, or no arrivals."""
    if len(set(types.prompt_tokens)) > 1:
        raise InputError("types", "prompt_tokens", types.prompt_tokens, "one length; solve each group by itself")
    if any(b <= a for a, b in zip(types.output_tokens, types.output_tokens[1:], strict=False)):
        raise InputError("types", "output_tokens", types.output_tokens, "ascending lengths")
    if not any(types.arrivals_per_s):
        raise InputError("types", "arrivals_per_s", types.arrivals_per_s, "at least one number > 0")
