"""Compares scheduling policies inside one engine: the same requests, the same random draws, paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenstep import names
from evenstep.errors import InputError
from evenstep.experiments.compare.engine_settings import EngineSettings, bounds_of, together
from evenstep.experiments.compare.gate_doubts import gate_doubts
from evenstep.experiments.compare.running import collected, place_of
from evenstep.experiments.contenders import check_each_once
from evenstep.experiments.crew import Kernels
from evenstep.experiments.jobs import RunJob, replicates
from evenstep.experiments.notation import slo_of
from evenstep.experiments.progress import Progress
from evenstep.experiments.sources import Reading
from evenstep.measure.engine_comparison import EngineComparison, compare_engine_runs
from evenstep.measure.engine_records import EngineRun
from evenstep.measure.metrics import known
from evenstep.request import Trace
from evenstep.scheduling.policies.best import Best
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import simulate_engine
from evenstep.workload.replicate import check_rate, rate, replicate, rescaled
from evenstep.workload.synthetic.yaml_file import check_arriving


def capacity(trace: Trace, settings: EngineSettings) -> float:
    """Requests a second that the engine serves if all of them wait from the start, under `best:patience=0,paced=false`.

    It is measured in one simulation, between the first and the last fifth of the completions, so that filling up and
    draining do not count. The trace's arrival times are ignored. `InputError` for too few requests.
    """
    engine, law = settings.server(), settings.law()
    run = simulate_engine(together(trace), Best(patience=0.0, paced=False), engine=engine, batch_time=law, records=False)
    ends = np.sort(run.requests.finished_s)
    low, high = ends.size // 5, ends.size * 4 // 5
    if high <= low or ends[high] <= ends[low]:
        raise InputError(trace.name or "trace", "rows", len(trace), "some hundred requests to scale to a load")
    return float((high - low) / (ends[high] - ends[low]))


def traces_of(
    settings: EngineSettings, fewer: bool, times_from: str = "Give --rate or --load, or --arrivals together."
) -> list[Trace]:
    """Read the workload of `settings` and make its replicates, in order, at the requested rate or load.

    A rate or load in the settings wins over one in a workload file. A load is a share of `capacity` on replicate 0. With
    arrivals ``together``, all requests arrive at 0 s, at no rate. With `fewer`, the list ends before the first replicate
    that equals an earlier one; otherwise that is an error. `times_from` is the error's hint if there are no arrival times.
    `InputError` for a file that cannot be read, and for timed arrivals without times or under a law of infinite mean.
    """
    found = Reading.of(settings).workload()
    source = found.source
    if settings.arrivals == "timed":
        a_second = settings.rate if settings.rate is not None else found.requests_per_s
        by_load = settings.load is not None or (found.load is not None and settings.rate is None)
        check_arriving(found, at_rate=by_load or a_second is not None)
        if by_load:
            load = settings.load or found.load or 0.0
            a_second = load * capacity(replicate(source, 0, settings.seed), settings)
            check_rate("--load", load, a_second)
        source = rescaled(source, requests_per_s=a_second, seed=settings.seed)

    def make(index: int) -> Trace:
        trace = replicate(source, index, settings.seed)
        return together(trace) if settings.arrivals == "together" else trace

    traces = replicates(make, settings.seeds, fewer)
    if settings.arrivals == "timed" and traces[0].arrival_s is None:
        raise InputError(settings.source, "arrival times", "missing", "times in the trace, or a rate", times_from)
    return traces


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduling policy as the user asked for it: a spec for `names.build`."""

    policy: Mapping[str, Any]

    def build(self) -> tuple[SchedulingPolicy, None]:
        """Build the policy anew; the second value stands for the predictor, which it has none of. `InputError` if bad."""
        return names.build("scheduling", self.policy), None


@dataclass(frozen=True, slots=True)
class Shared:
    """The data of all runs of a comparison of scheduling policies: settings, policies asked for, requests by replicate."""

    settings: EngineSettings
    asked: Sequence[Scheduler]
    traces: Sequence[Trace]

    @property
    def names(self) -> list[str]:
        return self.settings.policies

    @property
    def kernels(self) -> Kernels:
        """The engine's loop and the rules that the policies need."""
        loops = ["evenstep.sim.engine.loop"] * len(self.asked)
        return Kernels(self.asked, loops, kind=RunJob.kind)

    def run_of(self, contender: int, index: int) -> EngineRun:
        """Simulate policy number `contender`, built anew, on replicate `index`, under the seed ``settings.seed + index``."""
        settings, trace = self.settings, self.traces[index]
        policy, _ = self.asked[contender].build()
        return simulate_engine(
            trace,
            policy,
            engine=settings.server(),
            batch_time=settings.law(),
            bounds=bounds_of(settings.bounds, trace),
            seed=settings.seed + index,
            name=settings.policies[contender],
            until_s=settings.until_s or math.inf,
        )


def run_engine_comparison(
    settings: EngineSettings,
    *,
    fewer: bool = False,
    progress: Progress | None = None,
    on_policy: Callable[[list[EngineRun]], None] = lambda runs: None,
) -> tuple[EngineComparison, list[list[EngineRun]]]:
    """Run every policy on the same replicates, and compare each with the baseline, replicate by replicate.

    Returns the comparison, and its runs: ``runs[p][r]`` is policy p, in the order asked, on replicate r. Notes of the
    comparison name thresholds that break WAIT's theory, and policies that see true output lengths or lack bounds
    (`belief_note`). The settings must have passed `check`. With `fewer`, replicates end before the first that equals an
    earlier one; otherwise that is an error. `progress` receives messages; None = silent. `on_policy` is called with a
    policy's runs when all its replicates have run, in the order asked. `InputError` for a bad source, policy or number,
    `PolicyError` for a policy that breaks its contract.
    """
    if not settings.policies:
        raise InputError("compare", "policies", "empty", "at least one policy")
    baseline = place_of(settings.baseline, settings.policies)
    check_each_once(settings.policies)
    asked = [Scheduler(names.parse(spec)) for spec in settings.policies]
    policies = [one.build()[0] for one in asked]
    traces = traces_of(settings, fewer)
    runs: list[list[EngineRun]] = collected(Shared(settings, asked, traces), settings.processes, progress, on_policy)
    comparison = compare_engine_runs(runs, baseline, slo_of(settings.slo))
    comparison.trace["requests_per_s"] = known(rate(traces[0]))
    if settings.bounds != "trace":
        comparison = replace(comparison, conditions=replace(comparison.conditions, bounds=settings.bounds))
    engine, law = settings.server(), settings.law()
    notes = (
        f"{spec}: the thresholds break what the theory asks (WAIT): {'; '.join(doubts)}."
        for spec, policy in zip(settings.policies, policies, strict=True)
        if (doubts := gate_doubts(policy, traces[0], engine, law))
    )
    hint = "; give them with --bounds, e.g. --bounds survival:low=0.1,high=0.9"
    beliefs = (
        note
        for spec, policy, own in zip(settings.policies, policies, runs, strict=True)
        if (note := belief_note(spec, policy, "bounds_not_holding" in own[0].totals.counted, hint))
    )
    return replace(comparison, notes=(*comparison.notes, *notes, *beliefs)), runs


def belief_note(spec: str, policy: SchedulingPolicy, bounded: bool, hint: str = "") -> str:
    """A sentence if a policy is shown true output lengths, or plans with bounds of them that requests lack; else empty.

    The policy's attribute `believes` tells: ``truth``, ``bounds``, or absent. The sentence calls the policy `spec`.
    `bounded` is True if requests have bounds. `hint` is a clause on how to give them.
    """
    believes = getattr(policy, "believes", "")
    if believes == "truth":
        return f"{spec} is shown the true output lengths: a yardstick, no policy to run."
    if believes == "bounds" and not bounded:
        return f"{spec} plans with bounds of the output lengths and nothing is believed of them here{hint}."
    return ""
