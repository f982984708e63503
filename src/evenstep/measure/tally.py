"""Computes every metric of a run from chunks of its tables, so that long runs need not keep records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from evenstep.cost.power import Power
from evenstep.measure import metrics
from evenstep.measure.classes import ByClass
from evenstep.measure.metrics import Slo
from evenstep.measure.quantiles import AllValues, LogHistogram
from evenstep.measure.records import Conditions, RecordTable, RequestTable, StepTable, Totals
from evenstep.measure.waits import WaitsBySize
from evenstep.request import F8, I8

T = TypeVar("T", bound=RecordTable)
_BLOCK = 65_536  # rows worked on at once, so that temporary arrays stay small
_SHARES = np.array([0.5, 0.95, 0.99])

# Rows of the step sums.
_STEPS, _IDLE, _IDLE_TIME, _ENVELOPE, _SPREAD, _SECONDS, _TOKENS, _ALL_BUSY, _BUSY_IDLE_J, _AVERAGE_J = range(10)


class Tally:
    """Accumulates the metrics of one run from chunks of its record tables.

    Add every step in order of start and every completed request, in chunks of any size, then ask for the summary. Memory
    does not grow with the run unless `exact`.

    Args:
        exact: keep every request's times for exact percentiles; otherwise they are within 0.1 % (`LogHistogram`).
        slo: objective for goodput; None = the summary has no goodput.
        power: its `idle_w` is the power of workers while their group runs no request; None = the default `Power`. The energy
            of steps is in the step table.
    """

    def __init__(
        self, conditions: Conditions, exact: bool = True, slo: Slo | None = None, power: Power | None = None
    ) -> None:
        self._conditions = conditions
        self._slo = slo
        self._power = power or Power()
        self._steps = _StepSums(conditions)
        kind = AllValues if exact else LogHistogram
        self._times = {name: kind() for name in ("tpot", "ttft", "e2e", "wait")}
        self._sums = dict.fromkeys(self._times, 0.0)
        self._by_size = WaitsBySize()
        self._by_class = ByClass()
        self._oldest_wait_s = 0.0
        self._longest = 0
        self._requests = self._good_requests = self._good_tokens = 0

    def add_steps(self, steps: StepTable) -> None:
        """Add the next steps: in order of start, and all later than those added before. A table may be empty.

        Only sums are kept, so columns may be overwritten afterwards. Steps and requests may be added in any alternation.
        """
        for block in _blocks(steps):
            self._steps.add(block)

    def add_requests(self, requests: RequestTable) -> None:
        """Add completed requests, each once, in any order. A table may be empty; its columns may be overwritten later."""
        for block in _blocks(requests):
            self._add_requests(block)

    def summary(self, totals: Totals) -> dict[str, Any]:
        """Every metric so far by name, in JSON types, None for one without a value; `totals` has sums that the host counts.

        The fields are those of `docs/reference/metrics.md` except digest, and every entry of ``totals.counted``. Goodput is
        there only with an objective, ``by_class`` only with several classes, ``prefix_hit_share`` only with prefix caches.
        """
        makespan, work = totals.makespan_s, (totals.load_steps, totals.active_steps)
        values: dict[str, Any] = {
            "requests": totals.requests,
            "output_tokens": totals.output_tokens,
            "steps": totals.steps,
            "decisions": totals.decisions,
            "window": self._steps.window(),
            **self._step_metrics(totals),
            "tokens_per_s": totals.output_tokens / makespan if makespan > 0 else math.nan,
            "makespan_s": makespan,
            "policy_free_bound_s": metrics.policy_free_bound_s(self._conditions, *work, self._longest),
            **self._request_metrics(),
            **self._energy(makespan),
            "overloaded": totals.overloaded_steps == totals.steps,
            "overloaded_steps": totals.overloaded_steps,
            "restarts": totals.restarts,
        }
        if self._slo is not None:
            values |= metrics.goodput(self._good_requests, self._good_tokens, self._requests, makespan)
        if "prefix_prompt_tokens" in totals.counted:
            counted = totals.counted
            values["prefix_hit_share"] = counted["prefix_hit_tokens"] / max(1, counted["prefix_prompt_tokens"])
        return {name: _plain(value) for name, value in values.items()} | dict(totals.counted)

    def _add_requests(self, requests: RequestTable) -> None:
        """Add one block of N >= 1 requests to all sums, quantiles and maxima."""
        times = {
            "tpot": metrics.tpot(requests),
            "ttft": metrics.ttft(requests),
            "e2e": metrics.end_to_end(requests),
            "wait": metrics.wait(requests),
        }
        for name, values in times.items():
            self._times[name].add(values)
            self._sums[name] += float(values.sum())
        self._by_size.add(requests.prompt_tokens, times["wait"])
        if requests.request_class is not None:
            self._by_class.add(requests.request_class, requests.output_tokens, requests.admitted_s, times["wait"])
        self._oldest_wait_s = max(self._oldest_wait_s, float(times["wait"].max()))
        steps = requests.finished_step - requests.admitted_step + 1
        self._longest = max(self._longest, int(steps[requests.restarts == 0].max(initial=0)))
        self._requests += requests.rows
        if self._slo is not None:
            good = metrics.meets(self._slo, times["ttft"], times["tpot"])
            self._good_requests += int(good.sum())
            self._good_tokens += int(requests.output_tokens[good].sum())

    def _step_metrics(self, totals: Totals) -> dict[str, float]:
        """Imbalance and throughput figures by name: means over the steps of the steady window, and rates."""
        conditions, sums = self._conditions, self._steps.chosen()
        count = sums[_STEPS]
        mean = _ratio(sums.sum(axis=1), count.sum())
        by_group = np.where(count > 0, _ratio(sums[_IDLE], count), mean[_IDLE])
        active = max(1, totals.active_steps)
        load = metrics.mean_load(conditions, totals.load_steps, active)
        rate = metrics.full_slot_tokens_per_s(conditions, load, by_group, totals.output_tokens / active)
        window_rate, idle_time = float(np.nansum(_ratio(sums[_TOKENS], sums[_SECONDS]))), float(mean[_IDLE_TIME])
        return {
            "idle_share": float(mean[_IDLE]),
            "idle_time_share": idle_time,
            "barrier_tokens_per_s": metrics.barrier_worth(window_rate, idle_time),
            "imbalance_envelope_tokens": float(mean[_ENVELOPE]),
            "imbalance_spread_tokens": float(mean[_SPREAD]),
            "full_slot_tokens_per_s": rate,
            "window_tokens_per_s": window_rate,
            "mean_load_tokens": load,
        }

    def _request_metrics(self) -> dict[str, Any]:
        """Latency and wait figures of completed requests by name: means, percentiles, and lists by prompt size and class."""
        values: dict[str, Any] = {}
        for name in ("tpot", "ttft", "e2e"):
            values[f"{name}_mean_s"] = self._mean(name)
            for share, value in zip(("p50", "p95", "p99"), self._times[name].quantiles(_SHARES), strict=True):
                values[f"{name}_{share}_s"] = float(value)
        values["mean_wait_s"] = self._mean("wait")
        values["p99_wait_s"] = float(self._times["wait"].quantiles(_SHARES[2:])[0])
        values["oldest_wait_s"] = self._oldest_wait_s
        values["waits_by_prompt_fifth"] = self._by_size.fifths()
        classes = self._by_class.rows()
        if len(classes) > 1:
            values["by_class"] = classes
        return values

    def _mean(self, name: str) -> float:
        """Mean of a time in `_times` over the requests added, seconds; nan without requests."""
        return self._sums[name] / self._requests if self._requests else math.nan

    def _energy(self, makespan_s: float) -> dict[str, float]:
        """Energy of the run under both accountings, joules, and mean power of a worker, watts, by name."""
        sums = self._steps.all()
        sizes = np.array(self._conditions.group_sizes, np.float64)
        unoccupied_s = np.maximum(0.0, makespan_s - sums[_SECONDS])
        resting_j = float(np.sum(unoccupied_s * sizes) * self._power.idle_w)
        busy_idle_j = float(sums[_BUSY_IDLE_J].sum()) + resting_j
        worker_seconds = makespan_s * self._conditions.workers
        return {
            "energy_busy_idle_j": busy_idle_j,
            "energy_step_average_j": float(sums[_AVERAGE_J].sum()) + resting_j,
            "power_busy_idle_w": busy_idle_j / worker_seconds if worker_seconds > 0 else math.nan,
        }


class _StepSums:
    """Sums of step quantities by barrier group, kept apart for steps before, inside and after the full steps seen so far."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._linear = not math.isnan(conditions.seconds_per_token)
        shape = (10, len(conditions.group_sizes))
        self._before = np.zeros(shape)  # steps before the first full one
        self._inside = np.zeros(shape)  # from the first full step to the last one seen
        self._after = np.zeros(shape)  # steps since; they move inside when another full step comes
        self._rows = self._full_rows = 0
        self._first = self._last = -1

    def add(self, steps: StepTable) -> None:
        """Add the next steps, at least one, in order of start."""
        rows = np.flatnonzero(metrics.full(steps, self._conditions.slots_total))
        values = self._values(steps)
        start = end = 0
        if self._full_rows == 0:
            start = end = int(rows[0]) if rows.size else steps.rows
            self._before += self._sum(values, steps.group, 0, start)
            self._first = self._rows + start
        if rows.size:
            end = int(rows[-1]) + 1
            self._inside += self._after + self._sum(values, steps.group, start, end)
            self._after = np.zeros_like(self._after)
            self._last = self._rows + end - 1
        self._after += self._sum(values, steps.group, end, steps.rows)
        self._full_rows += rows.size
        self._rows += steps.rows

    def all(self) -> F8:
        """float64[10, groups], sums over the whole run."""
        return self._before + self._inside + self._after

    def chosen(self) -> F8:
        """float64[10, groups], sums over the steady window, or over the whole run with fewer than 10 full steps."""
        return self._inside if self._full_rows >= metrics.FEWEST_FULL_STEPS else self.all()

    def window(self) -> dict[str, Any]:
        """The summary's ``window``: kind, first and last step, and counts. Steps are numbered across groups, by start."""
        enough = self._full_rows >= metrics.FEWEST_FULL_STEPS
        first, last = (self._first, self._last) if enough else (0, self._rows - 1)
        return {
            "kind": "full-slots" if enough else "running",
            "first_step": first,
            "last_step": last,
            "steps": last - first + 1,
            "steps_with_all_slots_busy": int(self.chosen()[_ALL_BUSY].sum()),
        }

    def _values(self, steps: StepTable) -> F8:
        """float64[10, K], the quantities to sum for each step, in the order of the row names above (`_STEPS` and others)."""
        conditions = self._conditions
        size = metrics.of_group(conditions.group_sizes, steps.group)
        overhead_s = metrics.of_group(metrics.group_overheads(conditions), steps.group)
        heaviest, total = (steps.envelope, steps.load_sum) if self._linear else (steps.local_max_s, steps.local_sum_s)
        return np.stack(
            [
                np.ones(steps.rows),
                metrics.idle_share(heaviest, total, size),
                metrics.idle_share(steps.local_max_s, steps.local_sum_s, size, overhead_s),
                metrics.imbalance_envelope(steps.envelope, steps.load_sum, size),
                metrics.spread(steps.envelope, steps.load_min),
                steps.duration_s,
                steps.tokens.astype(np.float64),
                (steps.running_all >= conditions.slots_total).astype(np.float64),
                steps.energy_busy_idle_j,
                steps.energy_step_average_j,
            ]
        )

    def _sum(self, values: F8, group: I8, start: int, end: int) -> F8:
        """float64[10, groups], sums by group of the columns `start` to `end` (excluded) of `values`, float64[10, K]."""
        groups = len(self._conditions.group_sizes)
        if groups == 1:
            return values[:, start:end].sum(axis=1, keepdims=True)
        sums = np.zeros((values.shape[0], groups))
        for row, total in zip(values, sums, strict=True):
            total += np.bincount(group[start:end], weights=row[start:end], minlength=groups)
        return sums


def _blocks(table: T) -> Iterator[T]:
    """Yield the table in pieces of at most `_BLOCK` rows, without copying columns; no piece for an empty table."""
    for start in range(0, table.rows, _BLOCK):
        yield table.take(slice(start, start + _BLOCK)) if table.rows > _BLOCK else table


def _ratio(numerator: F8, denominator: F8 | float) -> F8:
    """Divide element by element; nan where the denominator is not above 0."""
    below = np.broadcast_to(np.asarray(denominator, np.float64), numerator.shape)
    return np.divide(numerator, below, out=np.full(numerator.shape, np.nan), where=below > 0)


def _plain(value: Any) -> Any:
    """Replace a float that is nan or infinite, which JSON lacks, by None; NumPy floats become Python floats."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
