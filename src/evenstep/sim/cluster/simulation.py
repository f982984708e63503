"""The barrier-synchronised decode cluster: one fleet, one policy, one trace in; a `Run` out.

Order of events, fixed so that results are reproducible to the last bit (spec: BF-IO sec. 3 and 6.2, BalanceRoute
sec. 2.2; several groups, instant dispatch, outages and KV limits are ours):

1. *Next event.* Every barrier group is idle or inside a step with a known end. Time moves to the earliest end; the
   groups that end then are *at their boundary*. If a group is idle, or dispatch is instant, and a request becomes visible
   strictly earlier, time moves there instead and no group is at a boundary. With `pool` dispatch, requests that become
   visible while every group is inside a step wait for the next boundary.
2. *Complete*, groups ascending: every running request has produced its tokens; those at their last step leave and free
   their slot, the others grow. The group's step number goes up by one. Outages of its workers at this step number take
   effect: all requests of a lost worker, running and queued, go back to the pool with their produced tokens.
3. *Reveal.* Requests whose time has come enter the pool in order of (time, row). Saturated arrivals then top the pool up to
   `pool` requests from the trace in order. The pool is kept in order of (visible time, row), so a request that went
   back stands where it stood before.
4. *Decide*, if a request waits and a worker may be sent one: ``free_slots = slots + queue_depth - running - queued``, 0
   for a lost worker. ``pool`` dispatch makes one decision over the whole pool. ``instant`` dispatch makes one for the
   oldest waiting request at a time, until it is held or no worker may be sent more. If a worker would be left without
   work although a held request of this decision fits it, it gets the oldest such request (unless `may_hold`). A request sent
   to a worker whose group is not inside a step, that has a slot and an empty queue, starts at once; otherwise it joins the
   worker's queue.
5. *Start*, every group that is not inside a step, ascending. Queues move up into free slots. A worker whose load exceeds
   `kv_tokens` sends its newest requests (largest admission step, then row) back to the pool until it fits or has one left.
   Then the loads are measured, newcomers' without the step's growth, and the step lasts
   ``overhead(group size) + max_g local_seconds(load_g, running_g, longest_g)``. A group with nothing running stays idle.

A lost worker counts in its group with load 0. If nothing runs and nothing can become visible, pending outages of the
earliest step take effect at once. If no outage is pending and requests still wait, the policy holds for ever: an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np

from evenstep.config.number import check_integers, integers
from evenstep.cost.linear import Linear
from evenstep.cost.power import Power
from evenstep.cost.view import PiecewiseLinear, StepTime
from evenstep.errors import MOST, InputError, check_known, check_range, check_range_if_given
from evenstep.measure.metrics import Slo
from evenstep.measure.records import Run
from evenstep.predict.view import Predictor
from evenstep.request import Trace
from evenstep.routing.view import RoutingPolicy
from evenstep.sim.cluster.drift import Drift
from evenstep.wording import counted

_MOST_SLOTS = 4_000_000  # each takes some hundred bytes


def _is_whole(value: Any, low: int) -> bool:
    """Whether a value is an integer from `low` to `MOST`, of any type but bool."""
    return not isinstance(value, bool) and isinstance(value, Integral) and low <= int(value) <= MOST


Arrivals = Literal["saturated", "timed", "closed"]
Dispatched = Literal["pool", "instant"]
Door = Literal["auto", "plain", "compiled"]


class Readies(Protocol):
    """Computes when prompts are ready, before the fleet runs; see `sim.prefill_tier`."""

    def ready(self, trace: Trace) -> Trace:
        """A copy of the trace whose `arrival_s` is the end of each prompt's prefill, in seconds; rows are sorted by it."""
        ...


@dataclass(frozen=True, slots=True)
class Outage:
    """Worker `worker`, 0..G-1, is lost when its barrier group has done `step` steps; with `back` it comes back then.

    It happens earlier if nothing else can. A lost worker's requests, running and queued, go back to the pool and keep the
    tokens that they have produced.
    """

    step: int
    worker: int
    back: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """The fleet and how requests reach it.

    Args:
        workers: G, data-parallel decode ranks.
        slots: B, concurrent requests a worker; one number, or one a worker.
        groups: sizes of the barrier groups, workers in order; empty = one group of all.
        arrivals: ``saturated`` (revelation: the pool is topped up to `pool`), ``timed`` (the trace's times) or ``closed``
            (users with think time, or the trace's own sessions).
        pool: requests the pool is topped up to when saturated.
        users: users at a time when closed (sessions at a time when the trace's sessions are replayed); 0 = one a slot.
        think_s: seconds a user thinks between requests when closed: every user takes the next row of the trace. None =
            replay the trace's sessions: a request becomes visible `Trace.think_s` after the end of `Trace.after` (or the
            session's start), the next session starts when one has ended.
        dispatch: ``pool``: one decision is about all waiting requests. ``instant``: one is about the oldest alone, and is
            made once it is visible and a worker has room.
        queue_depth: requests a worker may be sent beyond its slots; -1 = any number (a view then shows 2^40 more).
        kv_tokens: KV tokens a worker holds; inf = only slots limit. A worker that grows beyond it sends its newest requests
            back to the pool until it fits or has one left.
        kv_reserve: KV tokens of growth set aside for each request on a worker: a policy sees ``kv_free = kv_tokens - load -
            queued_load - kv_reserve * (running + queued)``, not below 0.
        prefill_base_s, prefill_per_token_s: seconds of prefill between arrival and becoming visible (timed arrivals).
        prefill: engines in front of the fleet that only prefill, in batches (timed arrivals); None = no such tier. A request
            then arrives here when its prompt is ready, and its latency counts from there. Requests are numbered in that
            order, which need not be the trace's.
        drift: how the load of a request grows from step to step.
        outages: workers lost and returned, in any order.
        may_hold: whether a policy may leave a worker without work though a waiting request fits it (paper mode). Else the
            oldest such request goes there, workers ascending, and the run counts those decisions (``held_decisions``).
        prefix_cache_blocks: blocks of prompt prefixes a worker keeps; 0 = no prefix caches. Policies that read
            `RoutingView.cached_tokens` then see them, and the run counts hits (`cluster.prefix_caches`). A hit saves no time
            here: prefill ends before the worker is known.

    Raises:
        InputError: a value out of range; the field is named.
    """

    workers: int = 16
    slots: int | tuple[int, ...] = 72
    groups: tuple[int, ...] = ()
    arrivals: Arrivals = "saturated"
    pool: int = 128
    users: int = 0
    think_s: float | None = None
    dispatch: Dispatched = "pool"
    queue_depth: int = 0
    kv_tokens: float = math.inf
    kv_reserve: float = 0.0
    prefill_base_s: float = 0.0
    prefill_per_token_s: float = 0.0
    prefill: Readies | None = None
    drift: Drift = field(default_factory=Drift)
    outages: tuple[Outage, ...] = ()
    prefix_cache_blocks: int = 0
    may_hold: bool = False

    def __post_init__(self) -> None:
        for name, low in (("workers", 1), ("pool", 1), ("users", 0), ("queue_depth", -1), ("prefix_cache_blocks", 0)):
            value = getattr(self, name)
            if not _is_whole(value, low):
                found = int(value) if isinstance(value, Integral) else low
                raise InputError("cluster", name, value, integers(low, found))
            object.__setattr__(self, name, int(value))
        for name, kind in (("arrivals", Arrivals), ("dispatch", Dispatched)):
            check_known("cluster", name, getattr(self, name), get_args(kind))
        given: Any = self.slots
        is_list = isinstance(given, tuple | list | np.ndarray)
        sizes: Any = tuple(cast("Sequence[Any]", given)) if is_list else (given,)
        if len(sizes) != (self.workers if is_list else 1) or not all(_is_whole(size, 1) for size in sizes):
            raise InputError("cluster", "slots", given, f"an integer >= 1, or {self.workers} of them, one a worker")
        object.__setattr__(self, "slots", tuple(map(int, sizes)) if is_list else int(given))
        total = sum(map(int, sizes)) if is_list else self.workers * int(given)
        if total > _MOST_SLOTS:
            raise InputError("cluster", "workers x slots", total, f"at most {_MOST_SLOTS:,} slots in all")
        groups: Any = self.groups
        of: Any = tuple(cast("Sequence[Any]", groups)) if isinstance(groups, tuple | list | np.ndarray) else (groups,)
        if not all(_is_whole(size, 1) for size in of) or sum(of) != (self.workers if of else 0):
            raise InputError("cluster", "groups", groups, f"sizes >= 1 that add up to {counted(self.workers, 'worker')}")
        object.__setattr__(self, "groups", tuple(map(int, of)))
        for name in ("kv_reserve", "prefill_base_s", "prefill_per_token_s"):
            check_range("cluster", "a finite number >= 0", low=0, finite=True, **{name: getattr(self, name)})
        check_range("cluster", "a number of KV tokens > 0, or inf", above=0, kv_tokens=self.kv_tokens)
        check_range_if_given("cluster", "a finite number of seconds >= 0", low=0, finite=True, think_s=self.think_s)
        if self.prefill is not None and (self.arrivals != "timed" or self.drift.profiles is not None):
            raise InputError("cluster", "prefill", self.prefill, "timed arrivals, and no profiles by request")
        drift, outages = cast("tuple[Any, Any]", (self.drift, self.outages))
        if not isinstance(drift, Drift):
            raise InputError("cluster", "drift", drift, "a Drift", "Write Drift(growth=0).")
        if not isinstance(outages, tuple | list) or not all(isinstance(one, Outage) for one in cast("list[Any]", outages)):
            raise InputError("cluster", "outages", outages, "a list of Outage(step, worker)")
        for outage in self.outages:
            if not (_is_whole(outage.step, 0) and _is_whole(outage.worker, 0)) or outage.worker >= self.workers:
                expected = f"a step in 0..{MOST} and a worker in 0..{self.workers - 1}"
                raise InputError("cluster", "outages", outage, expected)

    @property
    def slots_of(self) -> tuple[int, ...]:
        """Slots of each worker, G entries."""
        return self.slots if isinstance(self.slots, tuple) else (self.slots,) * self.workers

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of workers of each barrier group, in order of the groups; one group of all if `groups` is empty."""
        return self.groups or (self.workers,)


def check_fleet(where: str, cluster: Any, step_time: Any) -> None:
    """Raise an InputError, about `where`, if `cluster` is no `Cluster` or `step_time` no step-time law; None is allowed."""
    if cluster is not None and not isinstance(cluster, Cluster):
        raise InputError(where, "cluster", cluster, "a Cluster", "Write evenstep.Cluster(workers=8, slots=32).")
    methods = [getattr(step_time, name, None) for name in ("table", "overhead_seconds")]  # all that a simulator calls
    if step_time is not None and (isinstance(step_time, type) or not all(map(callable, methods))):
        raise InputError(where, "step_time", step_time, "a law", "Write evenstep.Linear(overhead_s=0.005).")
    if step_time is not None and not isinstance(step_time.table(), PiecewiseLinear):
        raise InputError(where, "step_time", type(step_time).__name__, "a law whose table() is a PiecewiseLinear")


def _check_kinds(trace: Any, policy: Any, predictor: Any, power: Any, slo: Any) -> None:
    """Raise an InputError if an argument of `simulate` has the wrong type."""
    if slo is not None and not isinstance(slo, Slo):
        raise InputError("simulate", "slo", slo, "an objective", "Write Slo(ttft_s=2.0, tpot_s=0.05).")
    if power is not None and not isinstance(power, Power):
        raise InputError("simulate", "power", power, "a Power", "Write Power(idle_w=100.0).")
    if not isinstance(trace, Trace):
        raise InputError("simulate", "trace", trace, "a Trace", "evenstep.read_trace reads one.")
    if isinstance(policy, str):
        hint = "evenstep.compare takes names; each policy is a class in evenstep.routing.policies."
        raise InputError("simulate", "policy", policy, "an object with a method route(view)", hint)
    if isinstance(policy, type):
        raise InputError("simulate", "policy", policy.__name__, "an object", f"Write {policy.__name__}().")
    if isinstance(predictor, type) or not (predictor is None or callable(getattr(predictor, "predict", None))):
        hint = "Each predictor is a class in evenstep.predict."
        raise InputError("simulate", "predictor", predictor, "an object with the methods predict and learn", hint)


def simulate(
    trace: Trace,
    policy: RoutingPolicy,
    *,
    cluster: Cluster | None = None,
    step_time: StepTime | None = None,
    predictor: Predictor | None = None,
    seed: int = 0,
    records: bool = True,
    workers: int = 0,
    decisions: bool = False,
    power: Power | None = None,
    slo: Slo | None = None,
    door: Door = "auto",
    name: str = "",
) -> Run:
    """Run a trace through a cluster under a routing policy; this module's docstring gives the order of events.

    Args:
        trace: the requests; all of them are run to completion.
        policy: a routing policy; one that looks ahead (`horizon` > 0) needs a predictor.
        cluster: the fleet; default `Cluster()`.
        step_time: seconds of a step; default `Linear()`.
        predictor: expected lengths of running requests; the oracle is ``evenstep.predict.oracle``.
        seed: key of every random draw of the policy.
        records: keep the request and step tables. Without them percentiles are approximate, and the records grow with
            the trace only by `decisions`, if they are kept.
        workers: most rows of the `WorkerTable`; 0 = no table. When it is full, every other row of a group is dropped.
        decisions: keep the table of decisions, one row each.
        power: law by which energy is counted; default `Power()`.
        slo: latency objective for goodput; None = no goodput.
        door: ``compiled`` runs the policy's kernel inside the loop, ``plain`` calls its `route`; ``auto`` takes the kernel
            where there is one, unless the policy is `plain_only`. Both give the same digest.
        name: the policy's name for tables and reports.

    Returns:
        The run: tables, totals, every metric, and the digest.

    Raises:
        InputError: a trace or option that does not fit.
        PolicyError: the policy broke its contract, raised, or holds for ever.
    """
    from evenstep.sim.cluster.host import run
    from evenstep.sim.cluster.state import Options

    check_fleet("simulate", cluster, step_time)
    _check_kinds(trace, policy, predictor, power, slo)
    check_integers("simulate", 0, seed=seed, workers=workers)
    check_known("simulate", "door", door, get_args(Door), "auto, compiled or plain")
    cluster = cluster or Cluster()
    if cluster.prefill is not None:
        trace = cluster.prefill.ready(trace)
    options = Options(seed=seed, records=records, decisions=decisions, samples=workers, power=power or Power(), slo=slo)
    return run(trace, policy, cluster, step_time or Linear(), predictor, options, door=door, name=name)
