"""The host's side of the short loop: which runs it can take, and full record tables from its short records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from evenstep.compiled import Floats, Ints, IntTable, Table, column, cut, declared, signature
from evenstep.cost.view import PiecewiseLinear
from evenstep.measure.digest import StreamingDigest
from evenstep.measure.records import RequestTable, StepTable
from evenstep.request import F8, I8
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.model import SHIFT, ShortRun

_BLOCK = 65_536  # rows worked on at once, so that temporary arrays stay small


def fits(cluster: Any, law: PiecewiseLinear, horizon: int) -> bool:
    """Whether the short loop can run this fleet, law and horizon; its results equal those of the long loop to the bit.

    Args:
        cluster: the fleet, a `Cluster`.
        law: seconds of a step.
        horizon: decode steps the policy looks ahead; 0 = it does not.
    """
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
    kept = {name: values[:rows] for name, values in run.steps._asdict().items()}
    return StepTable(
        group=np.zeros(rows, np.int64),
        step=np.arange(steps - rows, steps),
        running_all=kept["running"],
        tokens=kept["running"],
        local_max_s=slope * kept["envelope"],
        local_sum_s=slope * kept["load_sum"],
        **kept,
    )


class StepTimes(NamedTuple):
    """When the steps from number `first` on began and ended, in seconds: entry k is of step `first` + k."""

    began_s: F8
    ended_s: F8
    first: int = 0


class Kept:
    """Full record tables, computed on request from the two words that the short loop keeps of each request.

    Args:
        run: a finished run that kept its records.
        request_class: the trace's classes.
        steps: all of its steps.
    """

    def __init__(self, run: ShortRun, request_class: I8 | None, steps: StepTable) -> None:
        self._place, self._visible_s = column(run.done, "place"), column(run.done, "visible_s")
        self._prompt, self._output, self._steps = run.requests.prompt, run.requests.output, steps
        self._class = request_class

    def table(self) -> RequestTable:
        """The record table of all requests, in order of id; computed anew at each call."""
        return self._rows(0, self._prompt.size)

    def blocks(self) -> Iterator[RequestTable]:
        """The rows of `table` in pieces of 65,536 requests at most, in order of id: takes less memory."""
        for start in range(0, self._prompt.size, _BLOCK):
            yield self._rows(start, min(start + _BLOCK, self._prompt.size))

    def digest(self, final_clock_s: float) -> str:
        """The digest of the run as hexadecimal text; `final_clock_s`, when the run ended, is part of it."""
        hashed = StreamingDigest()
        for block in self.blocks():
            hashed.add(block.request_id, block.worker, block.admitted_step, block.finished_step)
        return hashed.finish(final_clock_s)

    @cached_property
    def _times(self) -> StepTimes:
        return StepTimes(self._steps.start_s, self._steps.start_s + self._steps.duration_s)

    def _rows(self, start: int, end: int) -> RequestTable:
        here = slice(start, end)
        columns = {
            "request_id": np.arange(start, end),
            "prompt_tokens": self._prompt[here],
            "output_tokens": self._output[here],
            "visible_s": self._visible_s[here],
            "request_class": None if self._class is None else self._class[here],
        }
        return _requests(columns, np.ascontiguousarray(self._place[here]), self._times)


def _requests(columns: dict[str, Any], place: I8, times: StepTimes) -> RequestTable:
    """The table of some completed requests: `columns` of the trace, and what follows from where they were admitted."""
    whole, seconds = np.empty((3, place.size), np.int64), np.empty((3, place.size))
    follow(place, columns["output_tokens"], times.began_s, times.ended_s, times.first, whole, seconds)
    return RequestTable(
        **columns,
        worker=whole[0],
        admitted_step=whole[1],
        finished_step=whole[2],
        admitted_s=seconds[0],
        first_token_s=seconds[1],
        finished_s=seconds[2],
        restarts=np.zeros(place.size, np.int64),
    )


@declared(signature(int, Ints, Ints, Floats, Floats, int, IntTable, Table))
def follow(place: Ints, output: Ints, began_s: Floats, ended_s: Floats, first: int, whole: IntTable, times: Table) -> int:
    """Compute the records of completed requests into `whole` and `times`; returns N, how many they are.

    Args:
        place: int64[N], `Admitted.place` of each, written at its admission.
        output: int64[N], tokens.
        began_s, ended_s: float64[K], start and end of the steps from `first` on.
        first: the first of these steps.
        whole: int64[3, N], filled with worker, first and last decode step.
        times: float64[3, N], seconds, filled with admission, first token and end.
    """
    worker_part = (1 << SHIFT) - 1
    for i in range(output.size):
        r = np.uintp(i)
        admitted = place[r] >> SHIFT
        finished = admitted + output[r] - 1
        begin, end = np.uintp(admitted - first), np.uintp(finished - first)
        whole[0, r], whole[1, r], whole[2, r] = place[r] & worker_part, admitted, finished
        times[0, r], times[1, r], times[2, r] = began_s[begin], ended_s[begin], ended_s[end]
    return output.size


class Unrecorded:
    """For runs of the short loop without records: holds the requests that were admitted and have not completed."""

    def __init__(self) -> None:
        self.rows, self.place, self.visible_s = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        self.times = StepTimes(np.zeros(0), np.zeros(0))

    def completed(self, run: ShortRun, request_class: I8 | None, steps: StepTable) -> RequestTable:
        """Read what the loop wrote since the last call; returns requests completed since, in order of admission.

        Args:
            run: the run, which is not changed; the caller then empties its buffers.
            request_class: the trace's classes.
            steps: the steps since the last call.
        """
        count, done_steps = int(run.now.request_rows), int(run.now.steps)
        written = cut(run.done, 0, count)
        rows = np.concatenate([self.rows, run.ended[:count]])
        place = np.concatenate([self.place, column(written, "place")])
        visible_s = np.concatenate([self.visible_s, column(written, "visible_s")])
        began_s = np.concatenate([self.times.began_s, steps.start_s])
        ended_s = np.concatenate([self.times.ended_s, steps.start_s + steps.duration_s])
        admitted = place >> SHIFT
        over = admitted + run.requests.output[rows] <= done_steps
        row = rows[over]
        columns = {
            "request_id": row,
            "prompt_tokens": run.requests.prompt[row],
            "output_tokens": run.requests.output[row],
            "visible_s": visible_s[over],
            "request_class": None if request_class is None else request_class[row],
        }
        first = self.times.first
        found = _requests(columns, place[over], StepTimes(began_s, ended_s, first))
        self.rows, self.place, self.visible_s = rows[~over], place[~over], visible_s[~over]
        oldest = int(admitted[~over].min(initial=done_steps))
        self.times = StepTimes(began_s[oldest - first :], ended_s[oldest - first :], oldest)
        return found
