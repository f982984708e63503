"""The host's side of the short loop: which runs it can take, and the tables behind the few words it writes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenstep.cost.view import PiecewiseLinear
from evenstep.measure.digest import StreamingDigest
from evenstep.measure.records import RequestTable, StepTable
from evenstep.request import F8, I8
from evenstep.sim import cluster_layout as at
from evenstep.sim.drift import Drift
from evenstep.sim.short_rows_kernel import follow

if TYPE_CHECKING:
    from evenstep.sim.cluster_state import State

_BLOCK = 65_536  # rows worked on at once, so that temporary arrays stay small


def fits(cluster: Any, law: PiecewiseLinear, horizon: int) -> bool:
    """Whether the short loop gives what the long one gives: see `short_loop_kernel`.

    Args:
        cluster: the fleet.
        law: seconds of a step.
        horizon: steps the policy looks ahead.
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
    """Whether a law is one line of the load through zero, the same for all workers."""
    return (
        law.longest_share == 0
        and law.load.size == 2
        and law.seconds.shape[0] == 1
        and law.load[0] == 0
        and law.seconds[0, 0] == 0
    )


def step_rows(state: State, rows: int) -> StepTable:
    """The last `rows` steps, from the words the loop wrote; windows and what follows from them."""
    running, admitted = state.ints.window(at.STEP_OUT_I)[:, :rows]
    start, duration, top, total, bottom, busy, average = state.floats.window(at.STEP_OUT_F)[:, :rows]
    slope, steps = state.floats.data[at.SLOPE], int(state.ints.data[at.STEPS])
    return StepTable(
        group=np.zeros(rows, np.int64), step=np.arange(steps - rows, steps), start_s=start, duration_s=duration,
        envelope=top, load_sum=total, load_min=bottom, local_max_s=slope * top, local_sum_s=slope * total,
        running=running, running_all=running, admitted=admitted, tokens=running,
        energy_busy_idle_j=busy, energy_step_average_j=average,
    )  # fmt: skip


class Kept:
    """Every request's two words, and the tables behind them: worked out when they are read.

    Args:
        state: the state of a finished run that kept its records.
        steps: all of its steps.
    """

    def __init__(self, state: State, steps: StepTable) -> None:
        self._words, self._visible = state.done_i, state.done_f[:, at.S_VISIBLE]
        self._prompt, self._output, self._steps = state.prompt, state.output, steps
        self._class = state.request_class

    def table(self) -> RequestTable:
        """All requests."""
        return self._rows(0, self._prompt.size)

    def blocks(self) -> Iterator[RequestTable]:
        """All requests in pieces, in order of id."""
        for start in range(0, self._prompt.size, _BLOCK):
            yield self._rows(start, min(start + _BLOCK, self._prompt.size))

    def digest(self, final_clock_s: float) -> str:
        hashed = StreamingDigest()
        for block in self.blocks():
            hashed.add(block.request_id, block.worker, block.admitted_step, block.finished_step)
        return hashed.finish(final_clock_s)

    @cached_property
    def _ended(self) -> F8:
        return self._steps.start_s + self._steps.duration_s

    def _rows(self, start: int, end: int) -> RequestTable:
        here = slice(start, end)
        return _requests(
            np.arange(start, end), self._words[here], self._visible[here], self._prompt[here], self._output[here],
            self._steps.start_s, self._ended, 0, None if self._class is None else self._class[here],
        )  # fmt: skip


def _requests(
    rows: I8,
    words: I8,
    visible: F8,
    prompt: I8,
    output: I8,
    began: F8,
    ended: F8,
    first: int,
    kind: I8 | None,
) -> RequestTable:
    """The table of some completed requests; `began` and `ended` are the times of the steps from `first` on."""
    whole, times = np.empty((3, rows.size), np.int64), np.empty((3, rows.size))
    follow(words, output, began, ended, first, whole, times)
    return RequestTable(
        request_id=rows, worker=whole[0], prompt_tokens=prompt, output_tokens=output,
        visible_s=visible, admitted_s=times[0], first_token_s=times[1], finished_s=times[2],
        admitted_step=whole[1], finished_step=whole[2], restarts=np.zeros(rows.size, np.int64),
        request_class=kind,
    )  # fmt: skip


class Passing:
    """Requests that were admitted and have not completed, where no records are kept: the loop writes at admission."""

    def __init__(self) -> None:
        self.rows, self.done = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
        self.began, self.ended, self.first = np.zeros(0), np.zeros(0), 0

    def completed(self, state: State, steps: StepTable) -> RequestTable:
        """Take what the loop wrote since the last visit; answers the requests that have completed since.

        Args:
            state: the run's.
            steps: the steps since the last visit.
        """
        count, done_steps = int(state.ints.data[at.REQUEST_ROWS]), int(state.ints.data[at.STEPS])
        rows = np.concatenate([self.rows, state.ints.window(at.ENDED)[:count]])
        done = np.concatenate([self.done, state.done_i[:count]])
        self.began = np.concatenate([self.began, steps.start_s])
        self.ended = np.concatenate([self.ended, steps.start_s + steps.duration_s])
        admitted = done[:, at.S_PLACE] >> at.S_SHIFT
        over = admitted + state.output[rows] <= done_steps
        row, words = rows[over], done[over]
        found = _requests(
            row, words, words.view(np.float64)[:, at.S_VISIBLE], state.prompt[row], state.output[row],
            self.began, self.ended, self.first,
            None if state.request_class is None else state.request_class[row],
        )  # fmt: skip
        self.rows, self.done = rows[~over], done[~over]
        oldest = int(admitted[~over].min(initial=done_steps))
        self.began, self.ended = self.began[oldest - self.first :], self.ended[oldest - self.first :]
        self.first = oldest
        return found
