"""The record tables of a run, as columns. Every metric, plot and report is computed from these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import numpy as np

from evenstep.request import F8, I8, Trace


@dataclass(frozen=True, slots=True, eq=False)
class RequestTable:
    """One row a completed request, in order of request id; N rows.

    Args:
        request_id, worker: int64[N]; `worker` is where it completed.
        prompt_tokens, output_tokens: int64[N].
        visible_s: float64[N], origin of waiting: arrival (timed), revelation (saturated) or becoming visible (closed).
        admitted_s: float64[N], clock at the start of its first decode step.
        first_token_s: float64[N], clock after its first decode step.
        finished_s: float64[N], clock after its last decode step.
        admitted_step, finished_step: int64[N], steps of its barrier group: first and last decode step.
        restarts: int64[N], times it went back to the pool (worker lost, or KV memory overflowed).
        request_class: int64[N], class or tenant; None where the trace has no classes.
    """

    request_id: I8
    worker: I8
    prompt_tokens: I8
    output_tokens: I8
    visible_s: F8
    admitted_s: F8
    first_token_s: F8
    finished_s: F8
    admitted_step: I8
    finished_step: I8
    restarts: I8
    request_class: I8 | None = None

    @property
    def rows(self) -> int:
        return int(self.request_id.size)


@dataclass(frozen=True, slots=True, eq=False)
class StepTable:
    """One row a decode step of one barrier group with at least one running request, in order of start; K rows.

    Args:
        group, step: int64[K], barrier group and the running number of its step.
        start_s, duration_s: float64[K], seconds.
        envelope, load_sum, load_min: float64[K], KV tokens: largest, total and smallest load of the group's workers.
        local_max_s, local_sum_s: float64[K], seconds of work without overhead: of the slowest worker, and summed.
        running: int64[K], running requests of the group.
        running_all: int64[K], running requests of all groups at that moment.
        admitted: int64[K], requests admitted at this step.
        tokens: int64[K], tokens the step produced.
        energy_busy_idle_j, energy_step_average_j: float64[K], joules under the two accountings of `cost.power`.
    """

    group: I8
    step: I8
    start_s: F8
    duration_s: F8
    envelope: F8
    load_sum: F8
    load_min: F8
    local_max_s: F8
    local_sum_s: F8
    running: I8
    running_all: I8
    admitted: I8
    tokens: I8
    energy_busy_idle_j: F8
    energy_step_average_j: F8

    @property
    def rows(self) -> int:
        return int(self.step.size)


@dataclass(frozen=True, slots=True, eq=False)
class WorkerTable:
    """Samples of every worker at every `stride`-th step of each group (the stride doubles as a run grows); S rows.

    Args:
        step: int64[S], the step sampled.
        group: int64[S], the barrier group whose step it is; workers of other groups are shown as they stand.
        start_s, duration_s: float64[S], seconds.
        load: float64[S, G], KV tokens.
        running: int64[S, G], requests.
        stride: steps between samples at the end of the run; 1 = every step is here.
        longest: float64[S, G], KV tokens of the longest request; None where the step-time law does not ask for it.
    """

    step: I8
    group: I8
    start_s: F8
    duration_s: F8
    load: F8
    running: I8
    stride: int
    longest: F8 | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DecisionTable:
    """One row a policy decision; D rows.

    Args:
        decision: int64[D], running number.
        now_s: float64[D], seconds.
        waiting, free_slots, admitted: int64[D], requests waiting and free slots before it, and requests sent.
        bound: float64[D], the policy's certified lower bound, or nan.
    """

    decision: I8
    now_s: F8
    waiting: I8
    free_slots: I8
    admitted: I8
    bound: F8


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a run: enough to compute every metric and to describe the run.

    Args:
        workers, slots: G and slots a worker (the largest, if they differ).
        slots_total: slots of the whole fleet.
        group_sizes: workers of each barrier group.
        overhead_s: C with its synchronisation term, seconds; per group if they differ.
        seconds_per_token: t_l of a linear law, seconds a KV token; nan for any other law.
        arrivals: ``saturated``, ``timed`` or ``closed``.
        pool: pool size of saturated arrivals; 0 otherwise.
        seed: key of the run's random draws.
        policy: the policy as specified by the user.
        predictor: its predictor's name, or empty.
        oracle: whether true lengths were shown, which is impossible live.
        prefill: whether prefill takes time; if not, a time to first token includes no prefill.
    """

    workers: int
    slots: int
    slots_total: int
    group_sizes: tuple[int, ...]
    overhead_s: tuple[float, ...]
    seconds_per_token: float
    arrivals: str
    pool: int
    seed: int
    policy: str
    predictor: str = ""
    oracle: bool = False
    prefill: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Sums over the whole run, updated as it runs, independent of the recorded tables.

    Args:
        requests, output_tokens, steps, decisions: counts.
        makespan_s: final clock, drain included, seconds.
        load_steps: sum over steps and workers of KV load; equals ``sum o*s + o(o-1)/2`` on completed sets at +1 drift.
        active_steps: sum over steps of running requests; equals ``sum o`` at one token a step.
        restarts: requests sent back to the pool.
        overloaded_steps: steps at which BF-IO's Definition 1 held: without its most frequent prompt length the pool
            could still fill every free slot.
        counted: other counts of the host by name, for instance fallbacks of a predictor.
    """

    requests: int
    output_tokens: int
    steps: int
    decisions: int
    makespan_s: float
    load_steps: float
    active_steps: int
    restarts: int
    overloaded_steps: int
    counted: dict[str, int] = field(default_factory=dict)


Table = TypeVar("Table")


class Worked(Generic[Table]):
    """A field that holds a table, or a function that computes the table when the field is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, run: Any, owner: type) -> Table | None:
        if run is None:
            return None  # the field's default
        value: Any = run.__dict__[self.name]
        if callable(value):
            run.__dict__[self.name] = value = cast("Callable[[], Table | None]", value)()
        return value

    def __set__(self, run: Any, value: Table | Callable[[], Table] | None) -> None:
        run.__dict__[self.name] = value


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated (or recorded) run: record tables, totals, digest.

    Args:
        conditions: its conditions.
        totals: sums over the run.
        hashed: computes `digest`, once, on first use.
        measured: computes `summary`, likewise.
        requests, steps: tables, or a function that computes `requests` on first use; None when records were off.
        workers: samples of every worker; None when not asked for.
        decisions: None unless asked for.
        trace: the trace that was run (for report headers), or None.
    """

    conditions: Conditions
    totals: Totals
    hashed: Callable[[], str]
    measured: Callable[[], dict[str, Any]]
    requests: Worked[RequestTable] = Worked()
    steps: StepTable | None = None
    workers: WorkerTable | None = None
    decisions: DecisionTable | None = None
    trace: Trace | None = None

    def __repr__(self) -> str:
        workload = (self.trace.name if self.trace is not None else "") or "a workload"
        return f"<run of {self.conditions.policy} on {workload}, {self.totals.requests} requests>"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of (request_id, worker, admission step, completion step) in id order and the final clock."""
        return self.hashed()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every metric by name (`measure.tally`), whether or not records were kept."""
        return self.measured()

    def __getstate__(self) -> dict[str, Any]:
        """Everything worked out: a run may travel between processes, a function may not."""
        digest, summary = self.digest, self.summary
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("hashed", "measured")}
        return {**state, "digest": digest, "summary": summary}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, hashed=lambda: state["digest"], measured=lambda: state["summary"])


def columns(table: Any) -> dict[str, Any]:
    """The columns of a record table by name, without absent ones."""
    found = {f.name: getattr(table, f.name) for f in fields(table)}
    return {name: column for name, column in found.items() if column is not None}


def concatenate(kind: Any, parts: list[Any]) -> Any:
    """Join the parts of a table in order. The list is emptied, unless it has a single part, which is returned."""
    if len(parts) == 1:
        return parts[0]
    names = list(columns(parts[0]))
    pieces = {name: [getattr(part, name) for part in parts] for name in names}
    parts.clear()  # so that each column's pieces are let go once they are joined
    return kind(**{name: np.concatenate(pieces.pop(name)) for name in names})
