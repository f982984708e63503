"""The record tables of the reference simulator, kept as one dictionary a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.oracles.fleet import Group, Job

from evenstep.measure.records import DecisionTable, RequestTable, StepTable, Totals
from evenstep.request import F8, I8, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What happened, step by step.

    Args:
        requests, steps: record tables; energy columns are zero, `admitted_step` is the last admission's.
        decisions: every decision, or no row when they were not asked for.
        totals: sums; `overloaded_steps` counts the steps that began when BF-IO's Definition 1 held before the
            decision: the waiting requests, less the largest number of them alike in load, fill all free slots.
        loads: (group, step, float64[workers of the group]) of every step, KV tokens.
    """

    requests: RequestTable
    steps: StepTable
    decisions: DecisionTable
    totals: Totals
    loads: list[tuple[int, int, F8]]


class Record:
    """What happened so far."""

    def __init__(self) -> None:
        self.overloaded = 0
        self._steps: list[dict[str, Any]] = []
        self._decisions: list[dict[str, Any]] = []
        self._loads: list[tuple[int, int, F8]] = []

    @property
    def decisions(self) -> int:
        """Decisions made: the number of the next one."""
        return len(self._decisions)

    def decision(self, now_s: float, waiting: int, free_slots: int, admitted: int, bound: float) -> None:
        """The next decision; `waiting` and `free_slots` are those before it."""
        self._decisions.append(
            {
                "decision": len(self._decisions),
                "now_s": now_s,
                "waiting": waiting,
                "free_slots": free_slots,
                "admitted": admitted,
                "bound": bound,
            }
        )

    def step(
        self,
        group: Group,
        start_s: float,
        duration_s: float,
        loads: list[float],
        local_s: list[float],
        jobs: list[Job],
        running_all: int,
        tokens: int,
    ) -> None:
        """A step that begins: `loads` and `local_s` of the group's workers, the `jobs` that run on them."""
        self._loads.append((group.index, group.step, floats(loads)))
        self._steps.append(
            {
                "group": group.index,
                "step": group.step,
                "start_s": start_s,
                "duration_s": duration_s,
                "envelope": max(loads),
                "load_sum": sum(loads),
                "load_min": min(loads),
                "local_max_s": max(local_s),
                "local_sum_s": _added(local_s),
                "running": len(jobs),
                "running_all": running_all,
                "admitted": sum(1 for job in jobs if job.admitted_step == group.step),
                "tokens": tokens,
                "energy_busy_idle_j": 0.0,
                "energy_step_average_j": 0.0,
            }
        )

    def reference(
        self, trace: Trace, by_row: dict[int, Job], final_s: float, decisions: bool, counted: dict[str, int]
    ) -> Reference:
        """The tables of a run that has ended."""
        jobs = [by_row[row] for row in range(len(trace))]
        requests = RequestTable(
            request_id=ints([j.row for j in jobs]),
            worker=ints([j.worker for j in jobs]),
            prompt_tokens=trace.prompt_tokens,
            output_tokens=trace.output_tokens,
            visible_s=floats([j.visible_s for j in jobs]),
            admitted_s=floats([j.admitted_s for j in jobs]),
            first_token_s=floats([j.first_token_s for j in jobs]),
            finished_s=floats([j.finished_s for j in jobs]),
            admitted_step=ints([j.admitted_step for j in jobs]),
            finished_step=ints([j.finished_step for j in jobs]),
            restarts=ints([j.restarts for j in jobs]),
            request_class=trace.request_class,
        )
        totals = Totals(
            requests=len(jobs),
            output_tokens=int(trace.output_tokens.sum()),
            steps=len(self._steps),
            decisions=len(self._decisions),
            makespan_s=final_s,
            load_steps=sum((row["load_sum"] for row in self._steps), 0.0),
            active_steps=sum(row["running"] for row in self._steps),
            restarts=sum(j.restarts for j in jobs),
            overloaded_steps=self.overloaded,
            counted=counted,
        )
        steps = _table(StepTable, self._steps)
        kept = _table(DecisionTable, self._decisions if decisions else [])
        return Reference(requests=requests, steps=steps, decisions=kept, totals=totals, loads=self._loads)


def _added(values: list[float]) -> float:
    """The sum from left to right; `sum` of Python 3.12 compensates, which is not what a loop does."""
    total = 0.0
    for value in values:
        total += value
    return total


def _table(kind: Any, rows: list[dict[str, Any]]) -> Any:
    columns: dict[str, Any] = {}
    for name, hint in kind.__annotations__.items():
        values = [row[name] for row in rows]
        columns[name] = floats(values) if hint == "F8" else ints(values)
    return kind(**columns)


def read_only(array: Any) -> Any:
    """The array, which nobody may change from now on."""
    array.setflags(write=False)
    return array


def ints(values: list[int]) -> I8:
    """A read-only int64 array."""
    return read_only(np.array(values, dtype=np.int64))


def floats(values: list[float]) -> F8:
    """A read-only float64 array."""
    return read_only(np.array(values, dtype=np.float64))
