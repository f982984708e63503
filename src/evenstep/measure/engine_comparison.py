"""The result of a comparison of scheduling policies: means over replicates, paired differences, and 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evenstep.errors import InputError
from evenstep.measure.comparison import (
    Interval,
    check_replicates,
    mean_interval,
    mean_over,
    paired_difference,
)
from evenstep.measure.digest import combined
from evenstep.measure.engine_records import EngineConditions, EngineRun, judged
from evenstep.measure.metrics import Slo
from evenstep.measure.stability import stability


@dataclass(frozen=True, slots=True, eq=False)
class EngineResult:
    """One policy over all replicates.

    Args:
        policy: the policy as it was asked for.
        seeds, digests, summaries: of each replicate.
        versus_first: paired differences to the first policy by field; None for the first itself.
        versus: the same to another named baseline, or None.
    """

    policy: str
    seeds: tuple[int, ...]
    digests: tuple[str, ...]
    summaries: tuple[dict[str, Any], ...]
    versus_first: dict[str, Interval] | None = None
    versus: dict[str, Interval] | None = None

    @property
    def digest(self) -> str:
        """The run's digest with one replicate; with several, SHA-256 over their digests in order."""
        return combined(self.digests)

    def mean(self, name: str) -> Any:
        """The field over all replicates; None where one has no value, ``mixed`` for words that differ."""
        values = [known(summary[name]) for summary in self.summaries]
        if name == "counted":
            return {which: mean_over(which, [value.get(which, 0) for value in values]) for which in values[0]}
        if any(isinstance(value, str) for value in values):
            return values[0] if len(set(values)) == 1 else "mixed"
        return mean_over(name, values)

    def interval(self, name: str) -> Interval | None:
        """Mean and interval of a field over replicates; None where a replicate has no value."""
        values = [known(summary[name]) for summary in self.summaries]
        return None if None in values else mean_interval([float(value) for value in values])


@dataclass(frozen=True, slots=True, eq=False)
class EngineComparison:
    """Scheduling policies on the same replicates of one workload.

    Args:
        policies: results, in the order asked.
        conditions: of the first run.
        baseline: index of the policy others are compared with.
        trace: the workload: name, format, requests and so on.
        notes: sentences on what was dropped or assumed.
        command, versions: of its origin.
        slo: the objective of goodput, or None.
    """

    policies: tuple[EngineResult, ...]
    conditions: EngineConditions
    baseline: int = 0
    trace: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    slo: Slo | None = None


def known(value: Any) -> Any:
    """A value of a summary; None for a number that is not one."""
    return None if isinstance(value, float) and math.isnan(value) else value


def verdict(run: EngineRun) -> str | None:
    """Whether the engine keeps up with what arrives (`measure.stability`); None for a run that cannot tell.

    That is one without its iterations, or whose requests came all at once.
    """
    try:
        return stability(run).verdict
    except InputError:
        return None


def compare_engine_runs(runs: Sequence[Sequence[EngineRun]], baseline: int = 0, slo: Slo | None = None) -> EngineComparison:
    """The comparison of runs made on the same replicates.

    Args:
        runs: for each policy, in order, its runs by replicate; the same seeds in the same order.
        baseline: index of the policy the field `versus` compares with.
        slo: objective for goodput.

    Raises:
        InputError: replicates that are copies of each other.
    """
    results: list[EngineResult] = []
    figures = [[_figures(run, slo) for run in own] for own in runs]
    for own, found in zip(runs, figures, strict=True):
        check_replicates(own[0].conditions.policy, [run.digest for run in own])
        other = figures[baseline] if baseline else None
        results.append(
            EngineResult(
                policy=own[0].conditions.policy,
                seeds=tuple(run.conditions.seed for run in own),
                digests=tuple(run.digest for run in own),
                summaries=tuple({**one, "verdict": verdict(run)} for one, run in zip(found, own, strict=True)),
                versus_first=None if found is figures[0] else paired(found, figures[0]),
                versus=None if other is None or found is other else paired(found, other),
            )
        )
    first = runs[0][0]
    trace: dict[str, Any] = {"requests": first.totals.requests + first.totals.unfinished}
    if first.trace is not None:
        trace |= {"name": first.trace.name, "format": first.trace.format, "synthetic": first.trace.synthetic}
    notes = first.trace.notes if first.trace is not None else ()
    return EngineComparison(tuple(results), first.conditions, baseline, trace, notes, slo=slo)


def _figures(run: EngineRun, slo: Slo | None) -> dict[str, Any]:
    """Every figure of a run by name; with an objective also those that follow from it."""
    return run.summary if slo is None else {**run.summary, **judged(run, slo)}


def paired(own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> dict[str, Interval]:
    """Paired differences of every number both policies have in every replicate, from their summaries."""
    found: dict[str, Interval] = {}
    for name, value in own[0].items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        pairs = [(known(a[name]), known(b[name])) for a, b in zip(own, other, strict=True)]
        if not any(value is None for pair in pairs for value in pair):
            found[name] = paired_difference([float(a) for a, _ in pairs], [float(b) for _, b in pairs])
    return found


def to_json_object(comparison: EngineComparison) -> dict[str, Any]:
    """The machine-readable form, as that of routing policies: one JSON object, policies in the order asked."""
    conditions = {k: v for k, v in asdict(comparison.conditions).items() if k not in ("policy", "seed")}
    return {
        "version": 1,
        "command": comparison.command,
        "versions": comparison.versions,
        "trace": comparison.trace,
        "conditions": conditions,
        "seeds": list(comparison.policies[0].seeds),
        "interval": "95 % t-interval of paired differences over replicates",
        "baseline": comparison.policies[comparison.baseline].policy,
        "notes": list(comparison.notes),
        **_objective(comparison.slo),
        "policies": [_policy_object(result) for result in comparison.policies],
    }


def _objective(slo: Slo | None) -> dict[str, Any]:
    """The objective in seconds, None for a time without a limit; nothing without an objective."""
    if slo is None:
        return {}
    limits = asdict(slo).items()
    return {"slo": {name: limit if math.isfinite(limit) else None for name, limit in limits}}


def _policy_object(result: EngineResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "policy": result.policy,
        "digest": result.digest,
        **{name: result.mean(name) for name in result.summaries[0]},
        "versus_first": _differences(result.versus_first),
    }
    if result.versus is not None:
        found["versus"] = _differences(result.versus)
    found["per_seed"] = [
        {"seed": seed, "digest": digest, **{name: known(value) for name, value in summary.items()}}
        for seed, digest, summary in zip(result.seeds, result.digests, result.summaries, strict=True)
    ]
    return found


def _differences(intervals: dict[str, Interval] | None) -> dict[str, Any] | None:
    if intervals is None:
        return None
    return {name: {"diff": i.value, "low": i.low, "high": i.high} for name, i in intervals.items()}
