"""Compares scheduling policies by runs of one engine, as `comparison` compares routing policies by runs of a fleet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evenstep.errors import InputError
from evenstep.measure.comparison import Compared, json_of, results_of
from evenstep.measure.engine_records import EngineConditions, EngineRun, judged
from evenstep.measure.metrics import Slo, known
from evenstep.measure.stability import stability


@dataclass(frozen=True, slots=True, eq=False)
class EngineComparison(Compared[EngineConditions]):
    """Scheduling policies compared on the same replicates. `slo` is the objective for goodput; None = without goodput."""

    slo: Slo | None = None


def verdict(run: EngineRun) -> str | None:
    """``stable``, ``unstable`` or ``undecided`` (`measure.stability`); None without iterations, trace or later arrivals."""
    try:
        return stability(run).verdict
    except InputError:
        return None


def compare_engine_runs(runs: Sequence[Sequence[EngineRun]], baseline: int = 0, slo: Slo | None = None) -> EngineComparison:
    """Compare scheduling policies by their runs, as `comparison.compare_runs` does, with the same errors.

    Summaries also get a stability ``verdict``, and goodput if there is an objective, `slo`.
    """
    results = results_of(runs, [[_figures(run, slo) for run in own] for own in runs], baseline, but=frozenset())
    first = runs[0][0]
    trace: dict[str, Any] = {"requests": first.totals.requests + first.totals.unfinished}
    if first.trace is not None:
        trace |= {"name": first.trace.name, "format": first.trace.format, "synthetic": first.trace.synthetic}
    notes = first.trace.notes if first.trace is not None else ()
    return EngineComparison(results, first.conditions, baseline, trace, notes, slo=slo)


def _figures(run: EngineRun, slo: Slo | None) -> dict[str, Any]:
    """A run's summary with its ``verdict`` and, if there is an objective, its goodput (`judged`); None replaces nan."""
    found = {**run.summary, **({} if slo is None else judged(run, slo)), "verdict": verdict(run)}
    return {name: known(value) for name, value in found.items()}


def to_json_object(comparison: EngineComparison) -> dict[str, Any]:
    """The JSON-ready dict of `comparison.json_of`; with an objective also ``slo``: limits in seconds, None = no limit.

    Each policy also has ``oracle`` and ``reachable_live``.
    """
    limits = {} if comparison.slo is None else asdict(comparison.slo)
    slo = {name: limit if math.isfinite(limit) else None for name, limit in limits.items()}
    return json_of(comparison, asdict(comparison.conditions), {"slo": slo} if slo else {}, ("oracle", "reachable_live"))
