"""The host's side of the short loop: which runs it can take, and full record tables from its short records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from evenstep.compiled import Rows, column, cut
from evenstep.cost.view import PiecewiseLinear
from evenstep.measure.digest import StreamingDigest
from evenstep.measure.records import RequestTable, StepTable
from evenstep.request import F8, I8
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.model import SHIFT, Admitted, Requests, ShortRun


def fits(cluster: Any, law: PiecewiseLinear, horizon: int) -> bool:
    """Whether the short loop can run this fleet, law and horizon (0 = no look ahead) with the long loop's exact results."""
    drift: Drift = cluster.drift
    return (
        len(cluster.group_sizes) == 1
        and cluster.dispatch == "pool"
        and cluster.queue_depth == 0
        and cluster.kv_tokens == np.inf
        and not cluster.outages
        and drift.is_linear
        and drift.tokens_per_step == 1
        and is_linear(law)
        and horizon == 0
        and (
            cluster.arrivals == "saturated"
            or (cluster.arrivals == "timed" and cluster.prefill_base_s == cluster.prefill_per_token_s == 0.0)
        )
    )


def is_linear(law: PiecewiseLinear) -> bool:
    """Whether a law, less overhead, is one line through zero for all workers: seconds proportional to load."""
    return (
        law.longest_share == 0
        and law.load.size == 2
        and law.seconds.shape[0] == 1
        and law.load[0] == 0
        and law.seconds[0, 0] == 0
    )


def step_rows(run: ShortRun) -> StepTable:
    """The table of the steps since the host last emptied it. Columns that the loop wrote are views that it may overwrite."""
    slope, steps, rows = run.fixed.slope, int(run.now.steps), int(run.now.step_rows)
    kept = StepTable(**{name: values[:rows] for name, values in run.steps._asdict().items()})
    return replace(
        kept,
        group=np.zeros(rows, np.int64),
        step=np.arange(steps - rows, steps),
        running_all=kept.running,
        tokens=kept.running,
        local_max_s=slope * kept.envelope,
        local_sum_s=slope * kept.load_sum,
    )


class StepTimes(NamedTuple):
    """When the steps from number `first` on began and ended, in seconds: entry k is of step `first` + k."""

    began_s: F8
    ended_s: F8
    first: int = 0


def completed_requests(
    requests: Requests, request_class: I8 | None, row: I8, place: I8, visible_s: F8, times: StepTimes
) -> RequestTable:
    """The record table of completed requests, whose times follow from worker and step of their admission.

    Args:
        requests, request_class: the trace, and its classes.
        row: int64[N], their rows of the trace.
        place, visible_s: [N], the words of `Admitted` of each.
        times: of all steps in which they ran.
    """
    output, admitted = requests.output[row], place >> SHIFT
    finished = admitted + output - 1
    begin = admitted - times.first
    return RequestTable(
        request_id=row,
        prompt_tokens=requests.prompt[row],
        output_tokens=output,
        request_class=None if request_class is None else request_class[row],
        worker=place & ((1 << SHIFT) - 1),
        admitted_step=admitted,
        finished_step=finished,
        visible_s=visible_s,
        admitted_s=times.began_s[begin],
        first_token_s=times.ended_s[begin],
        finished_s=times.ended_s[finished - times.first],
        restarts=np.zeros(row.size, np.int64),
    )


def kept_tables(
    requests: Requests, request_class: I8 | None, done: Rows[Admitted], steps: StepTable, most: int = 65_536
) -> Iterator[RequestTable]:
    """The records of all requests in order of id, as tables of `most` rows at most, which take less memory than one.

    They are computed anew at each call. `done` are the words kept of each request, `steps` those of the whole run;
    `request_class` has the trace's classes.
    """
    times = StepTimes(steps.start_s, steps.start_s + steps.duration_s)
    for start in range(0, len(done), most):
        some = cut(done, start, start + most)
        row, place, visible_s = np.arange(start, start + len(some)), column(some, "place"), column(some, "visible_s")
        yield completed_requests(requests, request_class, row, place, visible_s, times)


def digest(tables: Iterable[RequestTable], final_clock_s: float) -> str:
    """The digest of a run as hexadecimal text; `final_clock_s`, when the run ended, is part of it."""
    hashed = StreamingDigest()
    for table in tables:
        hashed.add(table.request_id, table.worker, table.admitted_step, table.finished_step)
    return hashed.finish(final_clock_s)


class Unrecorded:
    """For runs of the short loop without records: holds the requests that were admitted and have not completed."""

    def __init__(self) -> None:
        self.rows, self.place, self.visible_s = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        self.times = StepTimes(np.zeros(0), np.zeros(0))

    def completed(self, run: ShortRun, request_class: I8 | None, steps: StepTable) -> RequestTable:
        """Read the loop's buffers, which the caller then empties; returns requests completed since the last call.

        They are in order of admission. `steps` are those since the last call; `request_class` has the trace's classes.
        """
        count, done_steps, first = int(run.now.request_rows), int(run.now.steps), self.times.first
        written = cut(run.done, 0, count)
        rows = np.concatenate([self.rows, run.ended[:count]])
        place = np.concatenate([self.place, column(written, "place")])
        visible_s = np.concatenate([self.visible_s, column(written, "visible_s")])
        began_s = np.concatenate([self.times.began_s, steps.start_s])
        ended_s = np.concatenate([self.times.ended_s, steps.start_s + steps.duration_s])
        admitted = place >> SHIFT
        over = admitted + run.requests.output[rows] <= done_steps
        self.rows, self.place, self.visible_s = rows[~over], place[~over], visible_s[~over]
        oldest = int(admitted[~over].min(initial=done_steps))
        self.times = StepTimes(began_s[oldest - first :], ended_s[oldest - first :], oldest)
        times = StepTimes(began_s, ended_s, first)
        return completed_requests(run.requests, request_class, rows[over], place[over], visible_s[over], times)
