"""Starts a comparison from a decision log: takes its fleet, law and policy, and measures the simulator's error."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep import names
from evenstep.errors import EvenstepError, InputError
from evenstep.experiments.settings import FleetSettings
from evenstep.measure.comparison import Comparison, ObservedRun, PolicyResult
from evenstep.report.tables import JUDGED
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.dispatch.observing import Observed
    from evenstep.experiments.settings import CompareSettings
    from evenstep.measure.metrics import Slo

#: Settings that do not describe the observed run. An override of any other setting makes the simulated fleet or workload
#: another one.
_APART = frozenset(
    ("pool", "prefix_cache_blocks", "slo", "may_hold", "model_params", "peak_flops", "format_name", "seed", "skip_bad_rows")
)
#: For some settings of the log, the settings that replace them if given.
_INSTEAD = {
    "groups": ("workers",),
    "overhead_s": ("law", "worker_speeds"),
    "per_token_s": ("law", "worker_speeds"),
    "arrivals": ("users", "think_s", "sessions"),
}


@dataclass(frozen=True, slots=True, eq=False)
class FromLog:
    """The settings of a comparison that a log gives."""

    observed: Observed  # the run that the log recorded
    values: dict[str, Any]  # settings by name, in the form of a settings file
    policy: str  # its policy with its predictor, as ``--policy`` takes it
    said: tuple[str, ...]  # sentences for the user on the data taken from the log, and on what the simulation omits
    origin: str = "decision log"  # the name of these settings' source in reports and in `Settled.origin`

    def layer(self, given: Collection[str]) -> dict[str, Any]:
        """A copy of `values` without settings that contradict those in `given`, the names that a file or a flag sets.

        Groups are left out if workers are given, the step's seconds if a law or worker speeds are, and arrivals if users, a
        think time or sessions are.
        """
        return {
            name: value for name, value in self.values.items() if not any(other in given for other in _INSTEAD.get(name, ()))
        }

    def overridden(self, origin: Mapping[str, str]) -> list[str]:
        """Names of fleet and workload settings that a file or flag set in place of the log; `origin` is `Settled.origin`."""
        fleet = (one.name for one in fields(FleetSettings) if one.name not in _APART)
        return [name for name in fleet if origin.get(name, "default") not in (self.origin, "default")]


def is_log(source: str) -> bool:
    """True if a path names a decision log, judged by the head of the file. False if it is missing or cannot be read."""
    from evenstep.workload import files
    from evenstep.workload.log_parts import first_left
    from evenstep.workload.readers import decision_log

    path = first_left(Path(source))
    try:
        return path.is_file() and decision_log.recognises(files.head(path), path.name)
    except InputError:
        return False


def from_log(path: str) -> FromLog:
    """Replay a decision log and take fleet, step-time law and policy from it.

    KV memory is the least of the workers. `values` has no law if the log shows too few steps to fit one. `InputError` for a
    log that cannot be read or replayed, or that shows no served request.
    """
    from evenstep.dispatch.observing import observe

    found = observe(path)
    slots = [worker.slots for worker in found.workers]
    values: dict[str, Any] = {
        "workers": len(slots),
        "slots": slots[0] if len(set(slots)) == 1 else slots,
        "groups": list(found.group_sizes) if len(found.group_sizes) > 1 else [],
        "arrivals": "timed",
    }
    capacity = min(found.kv_tokens)
    if math.isfinite(capacity):
        values["kv_tokens"] = capacity
    law = found.law
    if law is not None:
        values |= {"overhead_s": law.overhead_s, "per_token_s": law.seconds_per_token}
    return FromLog(found, values, _policy_of(found), tuple(_said(found)))


def _policy_of(found: Observed) -> str:
    """The log's policy with its predictor, as ``--policy`` takes it."""
    if not found.predictor:
        return found.policy
    spec = names.parse(found.predictor)
    options = [f"predictor={spec.pop('name')}", *(f"predictor.{key}={value}" for key, value in spec.items())]
    return ("," if "=" in found.policy else ":").join([found.policy, ",".join(options)])


def _said(found: Observed) -> Iterator[str]:
    """Yield sentences for the user on the data taken from the log, and on what the simulation omits."""
    law, slots = found.law, sorted({worker.slots for worker in found.workers})
    groups = f" in {len(found.group_sizes)} barrier groups" if len(found.group_sizes) > 1 else ""
    held = min(found.kv_tokens)
    each = " or ".join([*map(str, slots[:-1]), counted(slots[-1], "slot")])
    memory = f"{held:,.0f} KV tokens" if math.isfinite(held) else "KV memory without a known limit"
    yield (
        f"From the log: {counted(len(found.workers), 'worker')}{groups}, {each} each, {memory}; "
        f"{counted(found.requests.rows, 'served request')} at their arrival times; policy {found.policy}."
    )
    if law is None:
        yield "The log shows too few steps to fit a step-time law: the default one is used."
    elif law.seconds_per_token == 0.0:
        yield (
            f"Steps of the log took {1e3 * law.overhead_s:.3g} ms on average. It does not show that they last longer "
            "at a larger load, so what was lost at the barrier is not known; simulated steps all last as long."
        )
    else:
        yield (
            f"Step-time law of the log: C = {1e3 * law.overhead_s:.4g} ms, t_l = {law.seconds_per_token:.4g} s a token "
            f"± {100 * law.slope_error:.1f} % (R^2 {law.r_squared:.2f} over usual steps, {law.steps:,} steps)."
        )
    yield "The simulation has no prefill on the workers and decides as soon as a slot is free."
    if len(set(found.kv_tokens)) > 1:
        yield "Workers differ in KV memory: all have the least of them in the simulation."
    if found.fleet_changed:
        yield "Workers left during the log: the fleet is the largest there was."
    if found.prefillers:
        yield f"{counted(found.prefillers, 'worker that only prefills is', 'workers that only prefill are')} left out."
    difference = found.replayed.difference
    if difference is not None:
        yield (
            f"This version decides otherwise than the log from {difference.now_s:.1f} s on: only what came before counts."
        )


def errors(simulated: Mapping[str, Any], observed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The relative errors of a simulation, by metric of `JUDGED` with a value in both summaries.

    Each has ``observed``, ``simulated`` and ``error``: simulated over observed, minus 1, or None if observed is 0.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in JUDGED:
        real, ours = observed.get(name), simulated.get(name)
        if real is not None and ours is not None:
            found[name] = {"observed": real, "simulated": ours, "error": ours / real - 1.0 if real else None}
    return found


def row_of(log: FromLog, slo: Slo | None = None) -> PolicyResult:
    """The observed run as a `PolicyResult` of one replicate (seed 0, empty digest); it has goodput only with an `slo`."""
    summary = {"prefix_hit_share": None, **log.observed.summary(slo)}
    return PolicyResult(log.policy, log.observed.predictor, False, (0,), ("",), (summary,))


def with_observed(
    comparison: Comparison, log: FromLog, row: PolicyResult, settings: CompareSettings, overridden: Collection[str]
) -> Comparison:
    """A copy of the comparison, with the observed run and the simulator's error (`errors`) on the log's own fleet.

    The error is that of the first replicate. If the log's fleet cannot be simulated, there are no errors, and a sentence of
    the comparison says why.

    Args:
        comparison, settings: the comparison, which has the log's policy, and its settings.
        log, row: the data of the log, and the observed run (`row_of`).
        overridden: names of settings given in place of the log's. With any, the log's policy is run once more without them.
    """
    said, error = log.said, {}
    if overridden:
        flags = ", ".join("--" + name.replace("_", "-") for name in overridden)
        said += (f"Overridden: {flags}. The simulated rows are of another fleet or workload than the log's.",)
    try:
        twin = _on_its_own_fleet(log, settings, overridden) if overridden else comparison
        error = errors(twin[log.policy].summaries[0], row.summaries[0])
    except EvenstepError as refusal:
        said += (f"No error of the simulator: the log's own fleet cannot be simulated: {refusal}",)
    return replace(comparison, observed=ObservedRun(row, error, tuple(overridden), said))


def _on_its_own_fleet(log: FromLog, settings: CompareSettings, overridden: Collection[str]) -> Comparison:
    """Run the log's policy once, with the log's values or defaults in place of the `overridden` settings."""
    from evenstep.experiments.compare.running import run_comparison
    from evenstep.experiments.contenders import contenders
    from evenstep.experiments.sources import plan_of

    usual = FleetSettings()
    restored = {**{name: getattr(usual, name) for name in overridden}, **log.values}
    plan = plan_of(replace(settings, **restored, seeds=1))
    return run_comparison(plan, contenders([log.policy]))[0]
