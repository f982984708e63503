"""The settings of `compare` and `simulate`: their fields are flags, keys of a YAML file, and a published JSON Schema.

Its imports stay light, so that ``--help`` answers at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from evenstep.config.layers import Settled
from evenstep.config.schema import file_schema
from evenstep.errors import InputError
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.cost.power import Power
    from evenstep.cost.view import StepTime
    from evenstep.measure.metrics import Slo
    from evenstep.sim.cluster.simulation import Cluster
    from evenstep.workload.replicate import Source

#: The default comparison: policies of today's routers, then policies that balance.
USUAL = ("fcfs", "jsq", "least-load", "br-0", "bf-io", "best", "bf-io:horizon=20,discount=0.9,predictor=oracle")


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A fleet, how requests reach it, and the time of its steps.

    Args:
        workers: data-parallel decode ranks, G.
        slots: concurrent requests a worker, B; one number, or one a worker, e.g. 72,72,36.
        groups: sizes of the barrier groups, e.g. 4,4,8; one group of all workers when left out.
        arrivals: saturated (the pool is kept full), timed (the trace's times), closed (users, or the trace's sessions).
        pool: requests the waiting pool is topped up to when saturated.
        users: closed arrivals: users at a time, each with the next request of the trace; 0 = one a slot.
        think_s: closed arrivals: seconds a user thinks between two requests.
        sessions: closed arrivals without users: sessions of the trace replayed at a time; 0 = one a slot.
        load: rescale arrival times to this share of the fleet's capacity, e.g. 0.85.
        rate: rescale arrival times to this many requests a second; Poisson arrivals where the trace has no times.
        dispatch: pool (requests wait in one place) or instant (a queue on every worker).
        queue_depth: requests a worker may be sent beyond its slots; -1 = any number.
        kv_tokens: KV tokens a worker holds; left out = only slots limit.
        kv_reserve: KV tokens that policies see as reserved for the growth of each request on a worker.
        prefill_base_s: seconds of prefill before a timed request becomes visible.
        prefill_per_token_s: seconds of prefill a prompt token.
        prefillers: engines in front of the fleet that only prefill; prefill_base_s and prefill_per_token_s are then seconds
            of a batch and of each of its tokens. Latency counts from the moment a prompt is ready, and requests are numbered
            in that order. 0 = no such tier.
        prefill_budget: prompt tokens of a prefiller's batch.
        overhead_s: seconds of a decode step at any load, C.
        per_token_s: seconds of a decode step a resident KV token of the heaviest worker, t_l.
        sync_s: seconds of synchronisation added to C, or pairs of group size and seconds, e.g. 8:0.0002/64:0.0009.
        worker_speeds: speed of each worker, 1 = one token in per_token_s, e.g. 1,1.5,2 or 8*1/8*0.5; uniform:1:2 draws them.
        law: step-time law in place of overhead_s, per_token_s and sync_s, e.g.
            piecewise:knots=0:0/40000:0.003/110000:0.012; table:path=h100.csv.
        drift: how loads grow, e.g. growth=0.25; growth=3,tokens_per_step=3; sequence=1/1/0.5; left out = 1 token a step.
        outages: a worker lost (STEP:WORKER) or back again (STEP:WORKER:back), at a step of its group.
        prefix_cache_blocks: blocks of prompt prefixes a worker keeps, for traces with block ids; 0 = no prefix caches.
        slo: objective for goodput and the share of requests that meet it, e.g. ttft=2s,tpot=50ms.
        may_hold: leave a worker idle if the policy holds all requests that fit it (paper mode). Without this, the worker
            gets the oldest of these.
        model_params: parameters of the served model, for energy.
        peak_flops: peak of one worker in operations a second, for energy.
        limit: use only the first rows of the trace, or draw only so many requests.
        format_name: format of the trace file where it is not recognised, with options, e.g. mooncake:ticks=keep.
        seed: key of replicates and of the policies' random draws.
        skip_bad_rows: leave out rows that cannot be read, and say how many.
    """

    workers: int = 16
    slots: int | list[int] = field(default=72, metadata={"shape": "N[,N,...]"})
    groups: list[int] = field(default_factory=list[int])
    arrivals: Literal["saturated", "timed", "closed"] = "saturated"
    pool: int = 128
    users: int = 0
    think_s: float | None = None
    sessions: int = 0
    load: float | None = None
    rate: float | None = None
    dispatch: Literal["pool", "instant"] = "pool"
    queue_depth: int = 0
    kv_tokens: float | None = None
    kv_reserve: float = 0.0
    prefill_base_s: float = 0.0
    prefill_per_token_s: float = 0.0
    prefillers: int = 0
    prefill_budget: int = 2048
    overhead_s: float = 0.0049
    per_token_s: float = 1.1e-7
    sync_s: float | str = field(default=0.0, metadata={"shape": "X|N:X/N:X"})
    worker_speeds: str | None = field(default=None, metadata={"shape": "X[,X,...]|uniform:X:X"})
    law: str | None = field(default=None, metadata={"shape": "NAME[:KEY=VALUE,...]"})
    drift: str | None = field(default=None, metadata={"shape": "KEY=VALUE[,...]"})
    outages: list[str] = field(default_factory=list[str], metadata={"shape": "STEP:WORKER[:back]"})
    prefix_cache_blocks: int = 0
    slo: str | None = field(default=None, metadata={"shape": "ttft=X,tpot=X", "once": "Write ttft=2s,tpot=50ms."})
    may_hold: bool = False
    model_params: float = 8e9
    peak_flops: float = 312e12
    limit: int | None = None
    format_name: str | None = None
    seed: int = 0
    skip_bad_rows: bool = False

    def cluster(self) -> Cluster:
        """The simulated fleet that these settings describe, without its laws of time and power, and without the objective.

        With `prefillers`, the prefill times belong to that tier, where a batch of n tokens takes ``prefill_base_s + n *
        prefill_per_token_s`` seconds; else they delay each request by itself. Closed arrivals
        without users and without a think time replay the trace's sessions. `InputError` for a drift, an outage or another
        value that the fleet refuses.
        """
        from evenstep.cost.token_budget import TokenBudget
        from evenstep.experiments.notation import drift_of, outages_of
        from evenstep.sim.cluster.simulation import Cluster
        from evenstep.sim.prefill_tier import PrefillTier

        tier = None
        if self.prefillers:
            law = TokenBudget(c_s=self.prefill_base_s, a_s=self.prefill_per_token_s, b0=0.0)
            tier = PrefillTier(self.prefillers, law, self.prefill_budget)
        replayed = self.arrivals == "closed" and self.users == 0 and self.think_s is None
        each = [self.slots] if isinstance(self.slots, int) else self.slots
        return Cluster(
            workers=self.workers,
            slots=tuple(each) if len(each) > 1 else each[0],
            groups=tuple(self.groups),
            arrivals=self.arrivals,
            pool=self.pool,
            users=self.sessions if replayed else self.users,
            think_s=self.think_s if replayed or self.think_s is not None or self.arrivals != "closed" else 0.0,
            dispatch=self.dispatch,
            queue_depth=self.queue_depth,
            kv_tokens=math.inf if self.kv_tokens is None else self.kv_tokens,
            prefill_base_s=0.0 if self.prefillers else self.prefill_base_s,
            prefill_per_token_s=0.0 if self.prefillers else self.prefill_per_token_s,
            prefill=tier,
            kv_reserve=self.kv_reserve,
            drift=drift_of(self.drift),
            outages=outages_of(self.outages, self.workers),
            prefix_cache_blocks=self.prefix_cache_blocks,
            may_hold=self.may_hold,
        )

    def step_time(self) -> StepTime:
        """The step-time law: per worker with `worker_speeds` (`seed` draws ``uniform`` ones), else `law`, else linear.

        `InputError` for text that is not a law, or bad speeds.
        """
        from evenstep.cost.linear import law_of
        from evenstep.cost.per_worker import PerWorker
        from evenstep.experiments.notation import speeds_of

        linear = {"overhead_s": self.overhead_s, "per_token_s": self.per_token_s}
        if self.worker_speeds is None:
            return law_of(self.law, **linear, sync_s=self.sync_s)
        speed = speeds_of(self.worker_speeds, self.workers, self.seed)
        return PerWorker(speed=speed, **linear, sync_s=self.sync_s)

    def objective(self) -> Slo | None:
        """The limits of TTFT and TPOT, in seconds, that `slo` states; None if it is left out."""
        from evenstep.experiments.notation import slo_of

        return slo_of(self.slo)

    def power(self) -> Power:
        """The power law of one worker, in watts, from `model_params` and `peak_flops`, with defaults for the rest."""
        from evenstep.cost.power import Power

        return Power(model_params=self.model_params, peak_flops=self.peak_flops)


@dataclass(frozen=True, slots=True)
class CompareSettings(FleetSettings):
    """A comparison of policies on one workload.

    Args:
        source: a trace file, a workload YAML or sample:azure-conv.
        policies: policies as NAME:key=value,key=value; left out = a usual selection.
        seeds: replicates of each policy; if left out, fewer for a trace too short for three that differ.
        baseline: the policy others are compared with, as written in policies; the first when left out.
        processes: processes to run in; left out = all cores for a long run.
    """

    source: str = ""
    policies: list[str] = field(default_factory=lambda: list(USUAL))
    seeds: int = 3
    baseline: str | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class SimulateSettings(FleetSettings):
    """One run of one policy.

    Args:
        source: a trace file, a workload YAML or sample:azure-conv.
        policy: the policy as NAME:key=value,key=value.
        door: how the simulator calls the policy: its Python method (plain) or its compiled rule; both give the same digest.
        samples: most steps at which every worker's load is sampled; when there are that many, every other one is dropped.
    """

    source: str = ""
    policy: str = field(default="jsq", metadata={"once": "Several policies are compared by evenstep compare."})
    door: Literal["auto", "plain", "compiled"] = "auto"
    samples: int = 2000


#: Lowest value of each number; the ones in `_ABOVE_ZERO` must be greater than 0.
_AT_LEAST = {
    **dict.fromkeys(("workers", "slots", "pool", "prefill_budget", "limit", "seeds", "processes", "samples"), 1),
    **dict.fromkeys(("users", "think_s", "sessions", "kv_reserve", "prefill_base_s", "prefill_per_token_s"), 0),
    **dict.fromkeys(("prefillers", "overhead_s", "per_token_s", "prefix_cache_blocks", "seed"), 0),
    "queue_depth": -1,
}
_ABOVE_ZERO = ("load", "rate", "kv_tokens", "model_params", "peak_flops")


def mapping(elsewhere: Mapping[str, str], description: str) -> dict[str, Any]:
    """The JSON Schema of an object of all `compare` settings except the keys of `elsewhere`, with this description."""
    known = file_schema(CompareSettings, "")["properties"]
    kept = {name: one for name, one in known.items() if name not in (*elsewhere, "version")}
    return {"type": "object", "properties": kept, "additionalProperties": False, "description": description}


def checked(settled: Settled[Any]) -> Any:
    """Check the settings of a fleet for ranges and consistency, and return a copy with the arrivals that they imply.

    A load or rate implies ``timed``; users, a think time or sessions imply ``closed``. `InputError` for a bad value; the
    field is named as its layer writes it (``--workers`` on the command line).
    """
    value = settled.value
    settled.check_numbers(_AT_LEAST, _ABOVE_ZERO)
    if isinstance(value.slots, list) and (len(value.slots) not in (1, value.workers) or min(value.slots) < 1):
        raise settled.refusal("slots", f"an integer >= 1, or {value.workers} of them, one a worker")
    if value.groups and (min(value.groups) < 1 or sum(value.groups) != value.workers):
        raise settled.refusal("groups", f"sizes >= 1 that add up to {counted(value.workers, 'worker')}")
    if value.load is not None and value.rate is not None:
        hint = f"The rate is {value.rate:g}; leave one of them out."
        raise settled.refusal("load", "a rate or a load, not both", hint)
    if value.law is not None and value.worker_speeds is not None:
        raise settled.refusal("worker_speeds", "no value when a law is given", "Write per-worker:speed=... as the law.")
    for name in ("overhead_s", "per_token_s", "sync_s"):
        if value.law is not None and settled.origin[name] != "default":
            hint = f"Give it to the law, e.g. linear:{name.replace('_', '-')}=..."
            raise settled.refusal(name, "no value when a law is given", hint)
    arrived = _with_arrivals(settled)
    if value.prefillers and arrived.arrivals != "timed":
        raise settled.refusal("prefillers", "0 unless arrivals are timed", "Give --load or --rate.")
    if value.prefillers and value.prefill_base_s == value.prefill_per_token_s == 0.0:
        raise settled.refusal("prefillers", "0 where prefill takes no time", "Give --prefill-per-token-s.")
    return arrived


def check_used(settled: Settled[Any]) -> None:
    """Raise `InputError` for a setting that was given, is not 0, and has no effect with the others; call `checked` first.

    These are prefill times without timed arrivals, a budget without prefillers, and a KV reserve without a KV limit. A sweep
    does not call this, since it gives its fixed settings to every point.
    """
    value, origin = settled.value, settled.origin
    delays = value.load is not None or value.rate is not None or value.arrivals == "timed"
    timed = "Give --load or --rate: only requests with arrival times wait for their prefill."
    for name, counts, hint in (
        ("prefill_base_s", delays, timed),
        ("prefill_per_token_s", delays, timed),
        ("prefill_budget", value.prefillers > 0, "Give --prefillers: only they have a budget."),
        ("kv_reserve", value.kv_tokens is not None, "Give --kv-tokens: without a limit there is nothing to reserve."),
    ):
        if not counts and origin[name] != "default" and getattr(value, name) != 0:
            raise settled.refusal(name, "no value here, as it would change nothing", hint)


def idle(settled: Settled[Any], arrivals: str) -> list[str]:
    """A sentence for each setting that was given and has no effect with `arrivals`; scripts may give it to every run."""
    if arrivals == "saturated" or settled.origin["pool"] == "default":
        return []
    wrong = settled.refusal("pool", "")
    return [f"{wrong.where}: {wrong.field} has no effect: only with saturated arrivals the pool is topped up."]


def check_fits(settled: Settled[Any], source: Source) -> None:
    """Check that a recorded trace has the columns that its arrivals need; generators are checked when they run.

    `InputError` for timed arrivals on a trace without times, if no rate and no load is given. Also for closed arrivals
    without users and think time on a trace without sessions.
    """
    from evenstep.request import Trace

    value, trace = _with_arrivals(settled), source
    if not isinstance(trace, Trace):
        return
    if value.arrivals == "timed" and trace.arrival_s is None and value.rate is None and value.load is None:
        hint = "Give --rate, requests a second, for Poisson arrivals."
        raise InputError(trace.name, "arrival times", "absent", "times for timed arrivals", hint)
    replayed = value.arrivals == "closed" and value.users == 0 and value.think_s is None
    if replayed and trace.session is None:
        hint = "Give --users and --think-s."
        raise InputError(trace.name, "column session", "absent", "sessions for closed arrivals", hint)


def _with_arrivals(settled: Settled[Any]) -> Any:
    """The settings with the arrivals that they imply (`checked`); `InputError` if implied and given arrivals conflict."""
    value = settled.value
    timed = value.load is not None or value.rate is not None
    closed = value.users > 0 or value.think_s is not None or value.sessions > 0
    implied = [kind for kind, given in (("timed", timed), ("closed", closed)) if given]
    if len(implied) == 2:
        raise settled.refusal("load" if value.load is not None else "rate", "no value with closed arrivals")
    if value.sessions > 0 and (value.users > 0 or value.think_s is not None):
        raise settled.refusal("sessions", "0 where users are given: users take the trace's requests one by one")
    if not implied or value.arrivals == implied[0]:
        return value
    if settled.origin["arrivals"] != "default":
        fields = ("load", "rate") if implied[0] == "timed" else ("users", "think_s", "sessions")
        given = ", ".join(f"--{n.replace('_', '-')}" for n in fields if settled.origin[n] != "default")
        raise settled.refusal("arrivals", f"{implied[0]}, since {given} is given")
    return replace(value, arrivals=implied[0])
