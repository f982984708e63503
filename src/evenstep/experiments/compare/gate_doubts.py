"""Checks given thresholds of WAIT against its theory, a trace and an engine, and lists the conditions that fail."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.batch import BatchTime
from evenstep.errors import InputError
from evenstep.request import I8, Trace
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import Engine
from evenstep.theory import nested_thresholds, wait_thresholds
from evenstep.theory.fluid import Types
from evenstep.workload.replicate import rate

#: A set of requests as a mask, bool[N].
Members = np.ndarray[tuple[int], np.dtype[np.bool_]]
#: Memory has to suffice for so many iterations, except with this probability.
ITERATIONS, DELTA = 1e6, 0.01


def gate_doubts(policy: SchedulingPolicy, trace: Trace, engine: Engine, law: BatchTime) -> list[str]:
    """One phrase, with numbers, for each condition that the thresholds of `wait` or `nested-wait` break on this trace.

    The list is empty for other policies. It is also empty if the policy solves its own thresholds (``solve_s > 0``), because
    the given ones are only its first. An engine with ``kv_tokens = 0`` has unlimited memory.

    Types have the rates of the trace. For `wait` they are classes, of mean lengths. For `nested-wait` they are, in each
    prompt group, the segments in which requests end. Conditions on the time of an iteration are checked only if the law is
    `affine-kv` and the requests have arrival times.

    Source: WAIT eqs. 9, 10, 12.
    """
    if isinstance(policy, Wait | NestedWait) and policy.solve_s > 0:
        return []
    memory = float(engine.kv_tokens) or math.inf
    if isinstance(policy, Wait):
        return _of_wait(policy, trace, memory, law)
    return _of_nested(policy, trace, memory, law) if isinstance(policy, NestedWait) else []


def _of_wait(policy: Wait, trace: Trace, memory: float, law: BatchTime) -> list[str]:
    """`gate_doubts` of a `wait` policy; `memory` is in KV tokens, inf = unlimited."""
    classes = np.zeros(len(trace), np.int64) if trace.request_class is None else trace.request_class
    kind = np.minimum(classes, len(policy.thresholds) - 1)
    present = np.unique(kind)
    types, is_timed = _types(trace, [kind == k for k in present], law)
    thresholds = np.array(policy.thresholds, np.int64)[present]
    found = wait_thresholds.doubts(types, thresholds) if is_timed else []
    held = wait_thresholds.solved(types, thresholds).kv_tokens
    return [*found, *nested_thresholds.doubts_of_memory(held, memory)]


def _of_nested(policy: NestedWait, trace: Trace, memory: float, law: BatchTime) -> list[str]:
    """`gate_doubts` of a `nested-wait` policy; `memory` is in KV tokens, inf = unlimited."""
    segments = len(policy.ends) + 1
    group = np.searchsorted(np.array(policy.prompt_edges, np.int64), trace.prompt_tokens, side="right")
    last = np.searchsorted(np.array(policy.ends, np.int64), trace.output_tokens, side="left")
    thresholds = np.resize(np.array(policy.thresholds, np.int64), (len(policy.prompt_edges) + 1, segments))
    groups: list[tuple[int, Types, I8]] = []
    is_timed = False
    for g in np.unique(group).tolist():
        reached = int(last[group == g].max()) + 1
        members = [(group == g) & (last == k) for k in range(reached)]
        types, is_timed = _types(trace, members, law, ends=policy.ends[: reached - 1])
        groups.append((g, types, thresholds[g, :reached]))
    held = [float(np.dot(n, nested_thresholds.segment_work(types))) for _, types, n in groups]
    whole, needed = math.fsum(held), 0.0
    found: list[str] = []
    for (g, types, n), own in zip(groups, held, strict=True):
        said = nested_thresholds.doubts(types, n, memory, beside=whole - own, is_timed=is_timed)
        named = f"prompts of group {g + 1}: " if len(groups) > 1 else ""
        found += [text if text.startswith("a full batch") else named + text for text in said]
        try:
            needed += nested_thresholds.enough_memory(types, n, ITERATIONS, DELTA)
        except InputError:  # more requests reach a segment than it serves: no memory suffices, and a phrase says so
            needed = math.inf
    if memory < needed < math.inf and whole <= memory:
        found.append(
            f"memory of {memory:.4g} KV tokens is less than the {needed:.4g} that suffice for {ITERATIONS:.0e} iterations"
            f" with probability {1 - DELTA:g}"
        )
    return list(dict.fromkeys(found))


def _types(
    trace: Trace, members: Sequence[Members], law: BatchTime, ends: tuple[int, ...] | None = None
) -> tuple[Types, bool]:
    """(types with the rates and mean lengths of sets of requests, bool[N] each; True if rates and law are known).

    If they are not known, the counts of requests stand for rates. With `ends`, types are segments: all have the mean prompt,
    and all but the last end at these output tokens. None = each type has its own means.
    """
    counts = np.array([int(m.sum()) for m in members], float)
    whole = rate(trace) if trace.arrival_s is not None else math.inf
    is_timed = math.isfinite(whole) and whole > 0 and isinstance(law, AffineKv) and law.d0_s > 0
    d0, d1 = (law.d0_s, law.d1_s) if is_timed and isinstance(law, AffineKv) else (1.0, 0.0)
    rates = counts * (whole / len(trace)) if is_timed else counts
    if ends is not None:
        everybody = np.logical_or.reduce(members)
        prompt = [float(trace.prompt_tokens[everybody].mean())] * len(members)
        output = [*map(float, ends), float(trace.output_tokens[members[-1]].mean())]
    else:
        prompt = [float(trace.prompt_tokens[m].mean()) for m in members]
        output = [float(trace.output_tokens[m].mean()) for m in members]
    return Types(rates.tolist(), prompt, output, d0, d1), is_timed
