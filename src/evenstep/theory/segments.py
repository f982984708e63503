"""Number of segments for Nested WAIT: few waste memory on requests that end early, many on queues at their heads.

Types are in order of their outputs, all of one prompt length. Each of L segments owns consecutive types, as equally many as
possible. A segment ends with the longest of its types, and every request in it counts as if it stayed to that end.

Source: WAIT sec. 7.2, eqs. 14-16 and Figs. 16-18, with the slips of `nested_thresholds` corrected; L that does not divide
    the number of types, and the expected latency, are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenstep.errors import InputError, check_range
from evenstep.theory.fluid import Types
from evenstep.theory.nested_thresholds import NestedThresholds, check_types, queue_at_most, segment_work, solve
from evenstep.wording import counted


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A design of Nested WAIT with a given number of segments."""

    segments: int  # L, the number of segments
    solved: NestedThresholds  # its thresholds, and the memory and time they need
    latency_s: float  # approximate latency of a request, seconds, as the mean over all types (`expected_latency_s`)

    @property
    def queue_kv_tokens(self) -> float:
        """KV tokens for the queues at the heads of segments 2 to L: `enough_kv_tokens` less those of a full batch."""
        return self.solved.enough_kv_tokens - self.solved.kv_tokens


def merged(types: Types, segments: int) -> Types:
    """Merge m types into L = `segments` types, each of consecutive ones; their numbers differ by at most one.

    Rates are summed, and the longest output stands for all. An InputError for types that `check_types` refuses, or
    unless L is an integer from 1 to m.
    """
    check_types(types)
    many = len(types.output_tokens)
    check_range("segments", f"an integer from 1 to the {many} types", low=1, high=many, segments=segments)
    ends = [many * (i + 1) // segments for i in range(segments)]
    rates = np.add.reduceat(np.asarray(types.arrivals_per_s, float), [0, *ends[:-1]])
    outputs = [types.output_tokens[end - 1] for end in ends]
    return Types(rates.tolist(), [types.prompt_tokens[0]] * segments, outputs, types.d0_s, types.d1_s)


def designs(
    types: Types, counts: Sequence[int] | None = None, *, iterations: float = 1e6, delta: float = 0.01
) -> list[Design]:
    """For each number of segments the design of `solve`, in the order of `counts`; numbers that it refuses are left out.

    Args:
        types: in order of their outputs, all of one prompt.
        counts: numbers of segments to try; None = 1 to the number of types.
        iterations, delta: iterations over which the memory suffices, and the probability that it does not.

    Raises:
        InputError: `solve` refuses every number (the error of the last one), `counts` is empty or has a number that is no
            integer from 1 to the number of types, or `check_types` refuses the types.
    """
    check_types(types)
    found: list[Design] = []
    refused: InputError | None = None
    for count in counts if counts is not None else range(1, len(types.output_tokens) + 1):
        parts = merged(types, count)
        try:
            solved = solve(parts, iterations=iterations, delta=delta)
        except InputError as error:
            refused = error
            continue
        found.append(Design(count, solved, expected_latency_s(types, parts, solved)))
    if not found:
        raise refused or InputError("segments", "counts", counts, "at least one number of segments")
    return found


def best(
    types: Types,
    counts: Sequence[int] | None = None,
    *,
    kv_tokens: float | None = None,
    iterations: float = 1e6,
    delta: float = 0.01,
) -> Design:
    """The design whose number of segments needs the least memory; among equals the first in `counts`.

    `kv_tokens` is memory that it has to fit, None = no limit; the other arguments are as in `designs`. An InputError if
    `designs` raises one, or if memory is less than the best needs.
    """
    tried = designs(types, counts, iterations=iterations, delta=delta)
    least = min(tried, key=lambda one: one.solved.enough_kv_tokens)
    needed = least.solved.enough_kv_tokens
    if kv_tokens is not None and needed > kv_tokens:
        hint = f"That is with {counted(least.segments, 'segment')}{', which need the least' if len(tried) > 1 else ''}."
        raise InputError("segments", "kv_tokens", f"{kv_tokens:,.0f}", f"at least {math.ceil(needed):,}", hint)
    return least


def expected_latency_s(types: Types, parts: Types, solved: NestedThresholds) -> float:
    """Approximate latency of a request in seconds, as the mean over `types`, weighted by arrivals.

    `parts` are the types as `merged`, and `solved` their thresholds. Each of a request's l' + 1 stages lasts an iteration of
    a full batch, or as long as n_1 arrivals take if that is longer. Before the first stage it waits for half the time in
    which n_1 - 1 more arrive. At the head of each segment that it reaches it waits for the queue: Kingman's bound of the
    queue beyond the threshold, over the rate of requests that reach the head.
    """
    n = solved.thresholds.tolist()
    rates, outputs = np.asarray(types.arrivals_per_s, float), np.asarray(types.output_tokens, float)
    whole = float(rates.sum())
    stage_s = max(solved.iteration_s, n[0] / whole)
    waits, reach = [(n[0] - 1) / (2 * whole) + solved.iteration_s / (2 * (n[0] - whole * solved.iteration_s))], whole
    for i, share in enumerate(solved.go_on.tolist()):
        reach *= share
        queue = queue_at_most(n[i], n[i + 1], share) - n[i + 1]
        waits.append(queue / reach if reach > 0 else 0.0)
    segment = np.searchsorted(np.asarray(parts.output_tokens, float), outputs, side="left")
    each = (outputs + 1) * stage_s + np.cumsum(waits)[segment]
    return float(np.dot(rates, each) / whole)


def least_kv_tokens(types: Types) -> float:
    """KV tokens in the fluid equilibrium of the unmerged types. No number of segments needs fewer.

    The result means nothing if the engine cannot keep up with the types, which is not checked. Nor are prompts: all count
    as long as the first type's.
    """
    rates = np.asarray(types.arrivals_per_s, float)
    work = float(np.dot(np.cumsum(rates[::-1])[::-1], segment_work(types)))
    return types.d0_s * work / (1 - types.d1_s * work)
