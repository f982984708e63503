"""Reads a decision log as a recorded run: its fleet, its steps, and the times of its requests.

The log is replayed and observed. The dispatcher's own mirror knows loads and steps, so that a figure of a recorded run comes
out of the same functions as that of a simulated one (`measure.tally`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstep.dispatch.replay import Replayed, Watch, replay
from evenstep.dispatch.settings import WorkerSpec
from evenstep.errors import InputError
from evenstep.measure.metrics import Slo
from evenstep.measure.records import Conditions, RequestTable, StepTable, Totals
from evenstep.measure.tally import Tally
from evenstep.request import F8
from evenstep.workload.readers.decision_log import shares

#: Steps below which no law is fitted, and how many standard errors a slope must be above 0.
FEWEST, SURE = 50, 2.0
#: A step is unusual if it lies more than this many times the median distance from the line.
FAR = 7.0


@dataclass(frozen=True, slots=True)
class Law:
    """Seconds of a step against the load (KV tokens) of its heaviest worker, by least squares.

    The slope is fitted to usual steps only (`Observed.law`); the fixed part is set so that the law keeps the mean seconds of
    all steps.
    """

    overhead_s: float  # fixed seconds of a step; without a slope the mean seconds of a step
    seconds_per_token: float  # the slope, seconds a KV token; 0 = no slope: not clearly above 0, or a fixed part below 0
    r_squared: float  # share of the variation of usual steps that the law explains, 0..1; 0 without a slope
    steps: int  # number of all steps, usual and others
    slope_error: float = 0.0  # two standard errors of the slope, divided by the slope; 0 without a slope


@dataclass(slots=True, eq=False)
class Observed:
    """A recorded run, as read from a decision log."""

    policy: str  # the one that decided, as ``NAME[:key=value,...]``
    predictor: str  # the one that decided, in the same form
    workers: tuple[WorkerSpec, ...]  # the decode workers, group by group, as they were when most of them were there
    kv_tokens: tuple[float, ...]  # KV memory of each of `workers` in tokens, inf where it is not known
    group_sizes: tuple[int, ...]  # number of workers of each barrier group, in the order of `workers`
    replayed: Replayed  # how the replay went
    fleet_changed: bool  # whether the log has a `WorkerRemoved`
    prefillers: int  # how often a worker that only prefills was added or changed
    #: times of the requests that ended correctly, in order of arrival, in seconds since the first arrived. A request for
    #: several answers is one row for each, with equal parts of its tokens, in whole numbers.
    requests: RequestTable
    #: a tuple for each step: group, KV tokens of its workers at the start, running slots of the group and of all groups,
    #: seconds, and its end on the clock of `requests`
    steps: list[tuple[int, list[float], int, int, float, float]] = field(repr=False)

    @property
    def law(self) -> Law | None:
        """The fitted law of step time, computed at each access; None with fewer than 50 steps.

        Steps are left out of the fit of the slope if a request waited for its first token in them, or if they lie far from
        the line. The former are left out only if 50 others remain.
        """
        if len(self.steps) < FEWEST:
            return None
        envelope = np.array([max(load) for _, load, _, _, _, _ in self.steps])
        seconds = np.array([step[4] for step in self.steps])
        usual = ~self._has_prefill()
        if usual.sum() < FEWEST:
            usual[:] = True
        slope, _, _ = _line(envelope[usual], seconds[usual])
        rest = seconds - slope * envelope
        beyond = np.abs(rest - np.median(rest[usual]))
        usual &= beyond <= max(FAR * float(np.median(beyond[usual])), 0.01 * float(np.median(seconds[usual])))
        slope, error, explained = _line(envelope[usual], seconds[usual])
        overhead = float(seconds.mean() - slope * envelope.mean())
        if slope <= SURE * error or slope <= 0.0 or overhead < 0.0:
            return Law(float(seconds.mean()), 0.0, 0.0, len(seconds))
        return Law(overhead, slope, explained, len(seconds), SURE * error / slope)

    def _has_prefill(self) -> NDArray[np.bool_]:
        """bool[steps], whether a request of the group waited for its first token: prompts take time, too, not only load."""
        group, end = np.array([step[0] for step in self.steps]), np.array([step[5] for step in self.steps])
        begin = end - np.array([step[4] for step in self.steps])
        of_worker = np.repeat(np.arange(len(self.group_sizes)), self.group_sizes)
        served, found = self.requests, np.zeros(end.size, np.bool_)
        for number in range(len(self.group_sizes)):
            here, mine = group == number, (served.worker >= 0) & (of_worker[served.worker] == number)
            sent, first = np.sort(served.admitted_s[mine]), np.sort(served.first_token_s[mine])
            found[here] = np.searchsorted(sent, end[here]) > np.searchsorted(first, begin[here], side="right")
        return found

    def summary(self, slo: Slo | None = None) -> dict[str, Any]:
        """Every metric of a recorded run, by the names of a simulated one (`measure.tally`); `slo`: objective for goodput.

        A metric that a log cannot tell, such as energy, is None. So are time lost at barriers without a fitted slope, and
        figures of steps without any step.
        """
        law = self.law
        slope = law.seconds_per_token if law is not None and law.seconds_per_token > 0 else math.nan
        conditions = Conditions(
            workers=len(self.workers),
            slots=max(worker.slots for worker in self.workers),
            slots_total=sum(worker.slots for worker in self.workers),
            group_sizes=self.group_sizes,
            overhead_s=(law.overhead_s if law is not None else 0.0,) * len(self.group_sizes),
            seconds_per_token=slope,
            arrivals="timed",
            pool=0,
            seed=0,
            policy=self.policy,
        )
        tally, table = Tally(conditions, slo=slo), self._step_table(law)
        if table.rows:
            tally.add_steps(table)
        tally.add_requests(self.requests)
        tokens = int(self.requests.output_tokens.sum())
        totals = Totals(
            requests=self.requests.rows,
            output_tokens=tokens,
            steps=max(1, table.rows),
            decisions=self.replayed.decisions,
            makespan_s=float(self.requests.finished_s.max()),
            load_steps=float(table.load_sum.sum()),
            active_steps=max(1, int(table.running.sum())),
            restarts=0,
            overloaded_steps=0,
        )
        found = tally.summary(totals)
        untold = ("energy", "power", "overloaded", "policy_free", "full_slot", "mean_load", "restarts")
        if math.isnan(slope):  # loads are known, but not what they cost
            untold += ("idle_time", "barrier")
        if not table.rows:
            untold += ("idle", "imbalance", "window_tokens", "steps")
        return {name: None if name.startswith(untold) else value for name, value in found.items()}

    def _step_table(self, law: Law | None) -> StepTable:
        """The steps as a table of `measure`. Without a slope in `law`, local seconds count 1 s for each KV token."""
        loads = [np.array(step[1]) for step in self.steps]
        envelope, total, least = (np.array([of(load) for load in loads], np.float64) for of in (np.max, np.sum, np.min))
        per_token = law.seconds_per_token if law is not None and law.seconds_per_token > 0 else 1.0
        group, running, everywhere = (np.array([step[k] for step in self.steps], np.int64) for k in (0, 2, 3))
        seconds, ended = (np.array([step[k] for step in self.steps], np.float64) for k in (4, 5))
        nothing = np.zeros(group.size)
        return StepTable(
            group=group,
            step=np.arange(group.size, dtype=np.int64),
            start_s=ended - seconds,
            duration_s=seconds,
            envelope=envelope,
            load_sum=total,
            load_min=least,
            local_max_s=per_token * envelope,
            local_sum_s=per_token * total,
            running=running,
            running_all=everywhere,
            admitted=np.zeros(group.size, np.int64),
            tokens=running,
            energy_busy_idle_j=nothing,
            energy_step_average_j=nothing,
        )


def _line(x: F8, y: F8) -> tuple[float, float, float]:
    """Slope of the least-squares line, its standard error, and the share of the variation it explains, 0..1.

    All are 0 if there are fewer than 25 points, or if `x` does not vary.
    """
    if x.size < FEWEST // 2 or float(np.ptp(x)) == 0.0:
        return 0.0, 0.0, 0.0
    dx, dy = x - x.mean(), y - y.mean()
    spread, total = float(np.sum(dx * dx)), float(np.sum(dy * dy))
    slope = float(np.sum(dx * dy)) / spread
    left = max(0.0, total - slope * slope * spread)
    return slope, math.sqrt(left / (x.size - 2) / spread), 1.0 - left / total if total > 0 else 0.0


def observe(path: str | Path) -> Observed:
    """Replay a decision log with its own policy, and collect the run it recorded.

    `path` is the log, or one of its parts; the later ones in its folder are read too. It ends at the first decision that
    the replay does not repeat (`Observed.replayed`).

    Raises:
        InputError: the log cannot be read, shows no worker, or has no request that arrived, was sent and ended correctly
            with a token.
    """
    watch = Watch()
    found = replay(path, watch=watch)
    where = Path(path).name
    if not watch.fleet:
        raise InputError(where, "workers", 0, "a log that shows at least one worker")
    served = [r for r, (*_, tokens) in watch.done.items() if tokens and r in watch.arrived and r in watch.sent]
    served.sort(key=lambda request: (watch.arrived[request], request))
    if not served:
        raise InputError(where, "requests", 0, "at least one request that arrived, ran and finished")
    groups: dict[str, list[tuple[WorkerSpec, float]]] = {}
    for spec, capacity in watch.fleet:
        groups.setdefault(spec.group or f"\0{spec.name}", []).append((spec, capacity))
    ordered = [one for members in groups.values() for one in members]
    begin = watch.arrived[served[0]]
    return Observed(
        policy=found.policy,
        predictor=found.predictor,
        workers=tuple(spec for spec, _ in ordered),
        kv_tokens=tuple(capacity for _, capacity in ordered),
        group_sizes=tuple(len(members) for members in groups.values()),
        replayed=found,
        fleet_changed=watch.changed,
        prefillers=watch.prefillers,
        requests=_requests(watch, served, [spec.name for spec, _ in ordered], begin),
        steps=[(*step[:5], step[5] - begin) for step in watch.steps if step[0] < len(groups)],
    )


def _requests(watch: Watch, served: list[int], names: list[str], begin: float) -> RequestTable:
    """The table of the answers of the requests in `served`: a row each, times in seconds after `begin`.

    `names` are the workers; an answer's worker is an index in it, -1 if it is not listed.
    """
    place = {name: number for number, name in enumerate(names)}
    prompt, output = (np.array([watch.done[request][part] for request in served], np.int64) for part in (1, 2))
    copies = np.minimum([watch.copies[request] for request in served], np.maximum(1, output))
    each = np.repeat(served, copies).tolist()
    sent = [watch.sent[request] for request in each]
    finished = np.array([watch.done[request][0] for request in each])
    first = np.array([watch.first.get(request, watch.done[request][0]) for request in each])
    rows = len(each)
    return RequestTable(
        request_id=np.arange(rows, dtype=np.int64),
        worker=np.array([place.get(worker, -1) for _, worker in sent], np.int64),
        prompt_tokens=shares(prompt, copies),
        output_tokens=shares(output, copies),
        visible_s=np.array([watch.arrived[request] for request in each]) - begin,
        admitted_s=np.array([at for at, _ in sent]) - begin,
        first_token_s=first - begin,
        finished_s=finished - begin,
        admitted_step=np.zeros(rows, np.int64),
        finished_step=np.zeros(rows, np.int64),
        restarts=np.zeros(rows, np.int64),
    )
