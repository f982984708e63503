"""Projected loads of the reference simulator: who asks the predictor when, and what a policy is shown of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from tests.oracles.fleet import Group, Job, Loads, Worker

from evenstep.predict.oracle import Oracle
from evenstep.predict.view import Active, Finished, Predictor, SurvivalCurve, fit_now, is_oracle
from evenstep.request import F8, I8, Trace
from evenstep.routing.view import EXPECTED_AT

#: Added and taken away again it rounds an expected load to 2^-20 tokens, so that sums are exact in any order.
ROUNDING = 1.5 * 2.0**32


@dataclass(frozen=True, slots=True)
class Expectation:
    """A prediction in force: the request is expected to have left at `leave_step` of its group; inf = not soon.

    Where loads are expected, `curve` holds the chance to be there still some steps after its `done`-th.
    """

    leave_step: float
    tokens: int
    done: int = 0
    curve: tuple[float, ...] = ()


class Lookahead:
    """``projections[G, H+1]`` for a policy with a horizon, from a predictor or from the truth.

    A running request is predicted at the first decision after it started, again when it has produced
    `refresh_every` tokens since, and at once when it is still there at the step it was expected to have left at.
    What is due together is one call, in order of (worker, request). A prediction counts when ``leaves >= gate``;
    otherwise, and when ``steps_left >= H``, the request does not leave inside the window: not before its next
    prediction (``refresh = "anchored"``), or H steps from now on (``"literal"``).

    For a policy that expects loads, and with a predictor that has a curve, a running request counts at every step with
    the chance that it is there still, given that it is there now; what it adds is rounded to 2^-20 tokens. That is done
    at some steps; between them loads lie on lines.

    Source: BalanceRoute App. C; the anchored reading is ours, see the chapter on prediction.
    """

    def __init__(self, predictor: Predictor, horizon: int, trace: Trace, loads: Loads, expects: bool = False) -> None:
        self._predictor, self._horizon, self._trace, self._loads = predictor, horizon, trace, loads
        self._curve: Callable[[Active, int], F8] | None = None
        if expects and isinstance(predictor, SurvivalCurve) and not isinstance(predictor, Oracle):
            self._curve = predictor.curve
        self._sees_truth = is_oracle(predictor) and self._curve is None
        self._refresh_every: int = getattr(predictor, "refresh_every", 16)
        self._gate: float = getattr(predictor, "gate", 0.5)
        self._is_literal = getattr(predictor, "refresh", "anchored") == "literal"
        self._expected: dict[int, Expectation] = {}
        self._finished: list[tuple[float, int]] = []

    def left(self, row: int) -> None:
        """The request is on no worker any more; when it comes back, it is predicted anew."""
        self._expected.pop(row, None)

    def ended(self, row: int, now_s: float) -> None:
        """The request has completed."""
        self.left(row)
        self._finished.append((now_s, row))

    def projections(self, groups: list[Group]) -> F8:
        """float64[G, H+1], KV tokens of the running requests of each worker, steps counted from the coming one."""
        if not self._sees_truth:
            self._predict([j for j in _placed(groups) if self._is_due(*j)])
        table: list[list[float]] = []
        for group in groups:
            for worker in group.workers:
                table.append([self._load(worker, group, h) for h in range(self._horizon + 1)])
                if self._curve is not None:
                    self._draw_lines(table[-1])
        return np.array(table, dtype=np.float64)

    def _draw_lines(self, ahead: list[float]) -> None:
        """Expected loads lie on lines between the steps at which they are added up."""
        steps = [h for h in EXPECTED_AT if h < self._horizon] + [self._horizon]
        for low, high in pairwise(steps):
            rise = (ahead[high] - ahead[low]) / (high - low)
            ahead[low + 1 : high] = [ahead[low] + rise * (h - low) for h in range(low + 1, high)]

    def _load(self, worker: Worker, group: Group, ahead: int) -> float:
        total = 0.0
        for job in worker.running:
            if self._curve is not None:
                total += self._expected_load(job, ahead)
            elif ahead < self._steps_left(job, group):
                total += self._loads.at(job.row, job.done + ahead)
        return total

    def _expected_load(self, job: Job, ahead: int) -> float:
        known = self._expected[job.row]
        since = job.done - known.done
        chance = known.curve[since + ahead] * (1.0 / known.curve[since])
        return (self._loads.at(job.row, job.done + ahead) * chance + ROUNDING) - ROUNDING

    def _steps_left(self, job: Job, group: Group) -> float:
        if self._sees_truth:
            return job.steps - job.done
        return self._expected[job.row].leave_step - group.step

    def _is_due(self, job: Job, group: Group) -> bool:
        known = self._expected.get(job.row)
        if known is None:
            return True
        is_stale = self._loads.age(job) - known.tokens >= self._refresh_every
        if self._curve is not None and not is_stale:
            return known.curve[job.done - known.done] <= 0.0
        return is_stale or known.leave_step <= group.step

    def _predict(self, due: list[tuple[Job, Group]]) -> None:
        if not due:
            return
        if self._finished:
            self._predictor.learn(self._learned(sorted(self._finished)))
            self._finished = []
        fit_now(self._predictor)
        requests, made = [self._trace[job.row] for job, _ in due], self._loads.tokens_per_step
        active = Active(
            request_id=_ints([r.request_id for r in requests]),
            age=_ints([self._loads.age(job) for job, _ in due]),
            prompt_tokens=_ints([r.prompt_tokens for r in requests]),
            prompt_key=_ints([r.prompt_key for r in requests]),
            max_tokens=_ints([0 if self._loads.has_profiles else r.max_tokens for r in requests]),
            true_left=_ints([made * (job.steps - job.done) for job, _ in due] if is_oracle(self._predictor) else []),
        )
        if self._curve is not None:
            steps = self._horizon + -(-self._refresh_every // made)
            for (job, _), row in zip(due, self._curve(active, made * steps), strict=True):
                curve = tuple(float(chance) for chance in row[::made])
                self._expected[job.row] = Expectation(math.inf, self._loads.age(job), job.done, curve)
            return
        answer = self._predictor.predict(active, made * self._horizon)
        for n, (job, group) in enumerate(due):
            c, leaves = max(float(answer.steps_left[n]) / made, 1.0), float(answer.leaves[n])
            if leaves < self._gate or c >= self._horizon:
                leave_step = group.step + self._horizon if self._is_literal else math.inf
            else:
                leave_step = group.step + math.ceil(c)
            self._expected[job.row] = Expectation(leave_step, self._loads.age(job))

    def _learned(self, finished: list[tuple[float, int]]) -> Finished:
        requests = [self._trace[row] for _, row in finished]
        return Finished(
            request_id=_ints([r.request_id for r in requests]),
            prompt_tokens=_ints([r.prompt_tokens for r in requests]),
            output_tokens=_ints([self._loads.length(row) for _, row in finished]),
            prompt_key=_ints([r.prompt_key for r in requests]),
        )


def _placed(groups: list[Group]) -> list[tuple[Job, Group]]:
    """Every running request with its group, in order of (worker, request)."""
    placed: list[tuple[Job, Group]] = []
    for group in groups:
        for worker in group.workers:
            placed += [(job, group) for job in sorted(worker.running, key=lambda j: j.row)]
    return placed


def _ints(values: list[Any]) -> I8:
    return np.array(values, dtype=np.int64)
