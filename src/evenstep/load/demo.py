"""Runs `evenstep demo`: replays a trace through the gateway to emulated ranks, once for each of several policies.

Engines, gateway and client are separate processes. Idle time at the barrier is reported twice: by the engines, which know
it, and by the gateway, which computes it from the chunks that it forwards.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from evenstep.errors import InputError
from evenstep.load.demo_settings import DemoSettings, contender
from evenstep.load.processes import HOST, beside, emulator, free_ports, gateway
from evenstep.load.run import Outcome, Progress, drive
from evenstep.load.settings import LoadSettings, Target
from evenstep.load.summary import summary
from evenstep.load.watching import Sample, watched
from evenstep.measure.metrics import lost_share
from evenstep.request import Trace

#: Share of busy slots from which slots count as full.
FULL = 0.98
_ENGINES_S, _GATEWAY_S = 60.0, 600.0  # longest waits for the start; kernels may have to be compiled


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Figures of one policy's run, from its first to its last reading with full slots (`window`) unless said otherwise."""

    name: str  # the policy as the user wrote it
    outcome: Outcome  # the client's results, of the whole run
    summary: dict[str, Any]  # the client's figures, of the whole run, by name as `summary.summary` returns them
    window_s: float  # wall-clock seconds of the window
    is_full: bool  # at least 98 % of slots are busy at both ends of the window; else fewer are, but at least one
    tokens_per_s: float  # output tokens a second of engine time, the steps' planned seconds; nan without steps
    wall_tokens_per_s: float  # output tokens a second of wall-clock time
    idle_engines: float  # share of worker time lost at the barrier, as the engines report
    idle_gateway: float  # share of worker time lost at the barrier, as the gateway computes it; nan if not reported
    steps_seen: float  # share of the engines' steps that the gateway detected; nan if not reported, or without steps
    fallback_share: float  # share of decision rounds that least load decided in place of the policy; nan without rounds
    oldest_wait_s: float  # longest observed wait of a request in the gateway's pool, over the whole run; nan if unknown
    step_ms: float  # mean length of a step in engine time; nan without steps
    late_share: float  # share of steps that the engines ran late, because the machine was too slow
    cpu: dict[str, float]  # share of a core: ``engines``, ``gateway``, and over the whole run ``client``; nan if unknown


def run_demo(settings: DemoSettings, trace: Trace, watch: Callable[[str, Progress], None] | None = None) -> Iterator[Shown]:
    """Run the policies in turn, on the same requests at the same times; a generator that yields each one's figures.

    Each step of the iterator blocks for one run. Engines start once, and stop when the iterator ends or is closed. Each run
    has a gateway of its own.

    Args:
        trace: the requests with their times, from `replayed`.
        watch: called about every 0.2 s with the policy's text in the settings and the progress of its run; must return soon.

    Raises:
        EngineError: engines or gateway do not start.
        InputError: a run is too short to be measured.
    """
    engine, listen, admin = free_ports(3)
    options = {name.replace("_", "-"): getattr(settings, name) for name in ("ranks", "slots", "overhead_s", "per_token_s")}
    options |= {"prefill-per-token-s": 0, "token-budget": 0}
    with beside(emulator(engine, options), engine, "/health", _ENGINES_S) as engines:
        for text in settings.policies:
            policy, gather_ms = contender(text)
            with gateway(gateway_config(settings, policy, gather_ms, engine), listen, admin, _GATEWAY_S) as router:
                targets = Target(HOST, engine, False, ""), Target(HOST, admin, False, "")
                url = f"http://{HOST}:{listen}"
                asked = LoadSettings(source=settings.source, url=url, model="emulated", seed=settings.seed)
                with watched(*targets, {"engines": engines, "gateway": router}) as samples:
                    outcome = drive(trace, asked, None if watch is None else partial(watch, text))
            yield shown(settings, text, outcome, summary(outcome, asked), samples)


def gateway_config(settings: DemoSettings, policy: str, gather_ms: float | None, engine: int) -> dict[str, Any]:
    """The gateway's config (for `processes.gateway`) for one policy, NAME[:key=value,...].

    `gather_ms` is the gather time in milliseconds (None = the gateway's default), `engine` the port of the engines.
    """
    return {
        "policy": policy,
        "slots": settings.slots,
        "workers": [{"url": f"http://{HOST}:{engine}", "ranks": settings.ranks, "name": "rank"}],
        "dispatch": {"ttl_s": 600.0} | ({} if gather_ms is None else {"gather_ms": gather_ms}),
    }


def replayed(source: Trace, settings: DemoSettings) -> Trace:
    """The first `settings.requests` rows of a trace, or all if fewer, with new arrival times.

    Times are scaled so that the arrival rate is `settings.load` times the rate that evenly loaded ranks could serve. A
    trace without times gets Poisson arrivals of that rate, drawn from `settings.seed`.
    """
    from evenstep.workload.replicate import scaled_to_load

    return scaled_to_load(
        source.head(settings.requests),
        settings.load,
        workers=settings.ranks,
        slots=settings.slots,
        overhead_s=settings.overhead_s,
        per_token_s=settings.per_token_s,
        seed=settings.seed,
    )


def shown(settings: DemoSettings, name: str, outcome: Outcome, found: dict[str, Any], samples: list[Sample]) -> Shown:
    """Compute the figures of the run of the policy `name` from the client's summary (`found`) and the metrics pages.

    `samples` are readings of the pages, oldest first. A run that is too short to be measured raises `InputError`.
    """
    full = FULL * settings.ranks * settings.slots
    first, last = window(samples, full)
    ranks, seconds = settings.ranks, last.at_s - first.at_s
    moved = {key: last.engine[key] - first.engine[key] for key in first.engine}
    stepped_s, steps = moved["stepped_s"], moved["steps"]
    work_s = ranks * (stepped_s - steps * settings.overhead_s)
    told, seen = (last.gateway.get(k, math.nan) - first.gateway.get(k, math.nan) for k in ("idle_device_s", "steps"))
    cpu = {name: (used_s - first.cpu_s[name]) / seconds for name, used_s in last.cpu_s.items()}
    return Shown(
        name=name,
        outcome=outcome,
        summary=found,
        window_s=seconds,
        is_full=min(first.engine["running"], last.engine["running"]) >= full,
        tokens_per_s=moved["tokens"] / stepped_s if stepped_s > 0 else math.nan,
        wall_tokens_per_s=moved["tokens"] / seconds,
        idle_engines=lost_share(work_s - moved["busy_s"], ranks * stepped_s),
        idle_gateway=lost_share(told, ranks * seconds),
        steps_seen=seen / steps if steps else math.nan,
        fallback_share=_fallbacks(first, last),
        oldest_wait_s=_oldest_s(samples),
        step_ms=1e3 * stepped_s / steps if steps else math.nan,
        late_share=moved["late"] / steps if steps else 0.0,
        cpu={**cpu, "client": found["client_cpu_share"]},
    )


def _oldest_s(samples: list[Sample]) -> float:
    """The longest wait in the pool, in seconds, that the gateway reported; nan if it reported no wait."""
    waits_s = (one.gateway.get("oldest_s", math.nan) for one in samples)
    return max((wait_s for wait_s in waits_s if not math.isnan(wait_s)), default=math.nan)


def _fallbacks(first: Sample, last: Sample) -> float:
    """Share of the rounds between two samples that the fallback decided; nan without rounds."""
    # A gateway reports no count of fallbacks before the first one.
    rounds = last.gateway.get("rounds", math.nan) - first.gateway.get("rounds", 0.0)
    decided = last.gateway.get("fallbacks", 0.0) - first.gateway.get("fallbacks", 0.0)
    return decided / rounds if rounds > 0 else math.nan


def window(samples: list[Sample], full: float) -> tuple[Sample, Sample]:
    """The first and the last sample with at least `full` running requests, over all ranks: the window of a run.

    If fewer than two samples have so many, those with at least one running request count instead. Fewer than two of these
    raise `InputError`.
    """
    for least in (full, 1.0):
        found = [one for one in samples if one.engine["running"] >= least]
        if len(found) > 1:
            return found[0], found[-1]
    hint = "Ask for more requests: --requests."
    raise InputError("evenstep demo", "run", "too short to be seen", "a second with requests running", hint)


def cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
