"""The record tables of one engine's run, and every figure computed from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from evenstep.cost.power import Power, watts
from evenstep.errors import InputError
from evenstep.measure.digest import digest
from evenstep.measure.metrics import Slo, goodput, meets
from evenstep.measure.quantiles import AllValues, LogHistogram
from evenstep.measure.records import RecordTable
from evenstep.request import F8, I8, Trace
from evenstep.wording import counted


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EngineRequestTable(RecordTable):
    """One row for each completed request, in order of request id; N rows."""

    request_id: I8
    prompt_tokens: I8
    output_tokens: I8
    request_class: I8  # 0 where the trace has none
    arrival_s: F8
    scheduled_s: F8  # start of the first iteration that ran some of it
    first_token_s: F8  # end of the iteration with its first token
    finished_s: F8  # end of the iteration with its last token
    first_iteration: I8  # first iteration that ran some of it, counted from 0
    last_iteration: I8  # last iteration that ran some of it, counted from 0
    evictions: I8  # how often it lost its memory
    wasted_tokens: I8  # the computed KV tokens lost with it
    rank: I8  # data-parallel rank that ran it; 0 in an engine of one rank


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IterationTable(RecordTable):
    """One row for each iteration, in order of start; K rows."""

    start_s: F8  # clock at its start
    seconds: F8  # its length
    tokens: I8  # tokens run
    prefill_tokens: I8  # how many of them belong to prefills
    requests: I8  # requests in the batch
    decodes: I8  # how many of them decoded
    kv_batch: I8  # KV tokens of the requests in the batch, including the tokens it runs
    kv_held: I8  # KV tokens of all memory held while it ran, in whole blocks
    running: I8  # requests that held memory while it ran
    waiting: I8  # requests that waited while it ran
    evicted: I8  # requests evicted to form its batch
    produced: I8  # output tokens it produced


@dataclass(frozen=True, slots=True)
class EngineConditions:
    """The conditions of a run of one engine."""

    policy: str  # scheduling policy, as text
    batch_time: str  # law of iteration time, as text
    bounds: str  # source of output-length bounds, as text
    engine: dict[str, Any]  # the engine's settings by name
    seed: int  # key of every random draw
    #: whether true output lengths were shown to a policy that uses bounds of them, which is impossible live
    oracle: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class EngineTotals:
    """Sums over the whole run of one engine. Unfinished requests count except where stated."""

    requests: int  # completed ones
    output_tokens: int  # of completed requests
    prompt_tokens: int  # of completed requests
    unfinished: int  # requests not completed when the run was stopped
    iterations: int
    evictions: int
    wasted_tokens: int  # computed KV tokens that evictions lost
    moved_tokens: int  # KV tokens swapped out or in; each way counts
    prefill_tokens: int  # tokens run, recomputed ones included
    decode_tokens: int  # tokens run, recomputed ones included
    makespan_s: float  # final clock
    busy_s: float  # seconds inside iterations
    gaps: int  # number of gaps between consecutive tokens of a request, over all requests
    gap_mean_s: float  # their mean; nan without gaps
    gap_max_s: float  # the longest of them
    gap_counts: I8  # int64[BINS], how many gaps lie in each bin of a `quantiles.LogHistogram`
    #: other counts by name, for instance ``bounds_not_holding``: requests whose true length was outside the bounds that the
    #: policy planned with
    counted: dict[str, int] = field(default_factory=dict)
    #: the part of `busy_s` that a data-parallel rank waited for the slowest, mean over ranks; 0 with one rank
    barrier_s: float = 0.0


@dataclass(frozen=True, eq=False)
class EngineRun:
    """One simulated (or recorded) run of an engine."""

    conditions: EngineConditions  # what was run: engine, policy, laws, seed
    totals: EngineTotals  # the counts of the whole run
    requests: EngineRequestTable  # the completed requests
    iterations: IterationTable | None = None  # one row for each iteration; None when records were off
    trace: Trace | None = None  # the trace that was run, unfinished requests included; None if unknown

    def __repr__(self) -> str:
        workload = (self.trace.name if self.trace is not None else "") or "a workload"
        return f"<run of {self.conditions.policy} on {workload}, {counted(self.totals.requests, 'request')}>"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of int64 rows (request id, first and last iteration, evictions) in id order, and of the final clock."""
        table = self.requests
        facts = table.first_iteration, table.last_iteration, table.evictions
        return digest(table.request_id, *facts, self.totals.makespan_s)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every figure by name, as `docs/reference/metrics.md` defines them: counts, rates, shares and seconds.

        Each of ``e2e``, ``ttft``, ``wait``, ``tpot`` and ``tbt`` comes as ``_mean_s``, ``_p50_s``, ``_p95_s``, ``_p99_s``
        and ``_p999_s``; nan without a value. All but ``tbt`` are of completed requests. ``tbt`` is the gap between
        consecutive tokens of a request, ``tpot`` its mean (of requests with several tokens), and ``tel_s`` the sum of all
        end-to-end latencies (Interval scheduling eq. 2). Rates and shares of a run of zero length are 0.
        """
        totals, table = self.totals, self.requests
        span = totals.makespan_s
        ttft_s, tpot_s = first_and_next_s(table)
        e2e_s = table.finished_s - table.arrival_s
        return {
            "requests": totals.requests,
            "unfinished": totals.unfinished,
            "output_tokens": totals.output_tokens,
            "throughput_tokens_per_s": totals.output_tokens / span if span else 0.0,
            "throughput_with_prompts_tokens_per_s": (totals.output_tokens + totals.prompt_tokens) / span if span else 0.0,
            "throughput_requests_per_s": totals.requests / span if span else 0.0,
            **latencies("e2e", e2e_s),
            **latencies("ttft", ttft_s),
            **latencies("wait", table.scheduled_s - table.arrival_s),
            **latencies("tpot", tpot_s[table.output_tokens > 1]),
            "tel_s": float(np.sum(e2e_s)),
            "tbt_mean_s": totals.gap_mean_s,
            **named("tbt", LogHistogram.of(totals.gap_counts).quantiles(_SHARES)),
            "tbt_max_s": totals.gap_max_s if totals.gaps else math.nan,
            "evictions": totals.evictions,
            "wasted_tokens": totals.wasted_tokens,
            "moved_tokens": totals.moved_tokens,
            "iterations": totals.iterations,
            "makespan_s": span,
            "busy_share": totals.busy_s / span if span else 0.0,
            "barrier_share": totals.barrier_s / totals.busy_s if totals.busy_s else 0.0,
            "prefill_tokens": totals.prefill_tokens,
            "decode_tokens": totals.decode_tokens,
            "counted": dict(totals.counted),
        }


def energy_j(power: Power, run: EngineRun) -> float:
    """Energy of a run, joules: each iteration at the power for its tokens a second, the rest of the makespan at idle power.

    Prefill tokens count like decodes. Raises `InputError` if the run has no iteration table. Source: BF-IO eqs. 10 and 11,
    for an engine as one worker.
    """
    if run.iterations is None:
        raise InputError("energy", "records", None, "a run with its iterations recorded")
    busy_s, tokens = run.iterations.seconds, run.iterations.tokens.astype(float)
    rate = np.divide(tokens, busy_s, out=np.zeros_like(tokens), where=busy_s > 0)
    idle_s = run.totals.makespan_s - float(busy_s.sum())
    return float(np.dot(watts(power, rate), busy_s)) + power.idle_w * idle_s


def first_and_next_s(table: EngineRequestTable) -> tuple[F8, F8]:
    """TTFT (from arrival) and TPOT (mean gap between tokens; 0 with one token) of each request, float64[N] seconds each."""
    gaps = np.maximum(table.output_tokens - 1, 1)
    return table.first_token_s - table.arrival_s, (table.finished_s - table.first_token_s) / gaps


def judged(run: EngineRun, slo: Slo) -> dict[str, float]:
    """Goodput of a run by name: requests and tokens a second of requests that meet the objective, and their share.

    The share is of completed requests, nan without any; both rates are nan in a run of zero length (`metrics.goodput`).
    """
    table = run.requests
    good = meets(slo, *first_and_next_s(table))
    tokens = int(table.output_tokens[good].sum())
    return goodput(int(good.sum()), tokens, run.totals.requests, run.totals.makespan_s)


#: Percentiles every latency is given at.
_SHARES = np.array([0.5, 0.95, 0.99, 0.999])


def named(name: str, quantiles: F8) -> dict[str, float]:
    """float64[4] seconds as a dict, in order: ``NAME_p50_s``, ``NAME_p95_s``, ``NAME_p99_s`` and ``NAME_p999_s``."""
    return {f"{name}_{label}_s": float(one) for label, one in zip(("p50", "p95", "p99", "p999"), quantiles, strict=True)}


def latencies(name: str, values: F8) -> dict[str, float]:
    """``NAME_mean_s`` and the exact percentiles ``NAME_p50_s``, .. of float64[N] seconds in any order; all nan if N is 0."""
    kept = AllValues()
    kept.add(values)
    mean = float(np.mean(values)) if values.size else math.nan
    return {f"{name}_mean_s": mean, **named(name, kept.quantiles(_SHARES))}
