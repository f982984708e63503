"""The record tables of a run, as columns, from which every metric, plot and report is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self, cast

import numpy as np

from evenstep.measure.frames import Tabular
from evenstep.request import F8, I8, Trace
from evenstep.wording import counted


class RecordTable(Tabular):
    """Base of record tables: dataclasses whose first field is a column. As text it is its size and its columns' names."""

    __slots__ = ()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(columns(self).values())))

    def to_arrow(self) -> Any:
        """Its columns as a `pyarrow.Table`; two-dimensional ones are lists of fixed size, and plain numbers are left out."""
        import pyarrow as pa

        arrays: dict[str, Any] = {}
        for name, column in columns(self).items():
            if isinstance(column, np.ndarray):
                flat = pa.array(column.reshape(-1))
                arrays[name] = flat if column.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, column.shape[1])
        return pa.table(arrays)

    def take(self, rows: slice | I8) -> Self:
        """Some rows, given as a slice or as indices, as a table; a slice copies nothing. Every field has to be a column."""
        return type(self)(**{name: column[rows] for name, column in columns(self).items()})

    def __repr__(self) -> str:
        return f"<{counted(self.rows, 'row')} of {', '.join(columns(self))}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RequestTable(RecordTable):
    """One row for each completed request, in order of request id; N rows."""

    request_id: I8
    worker: I8  # index of the worker that completed it, -1 if a recorded run does not know
    prompt_tokens: I8
    output_tokens: I8
    #: clock from which it waits: its arrival (timed), its entry into the pool (saturated), or when its user asks (closed)
    visible_s: F8
    admitted_s: F8  # clock at the start of its first decode step
    first_token_s: F8  # clock at the end of its first decode step
    finished_s: F8  # clock at the end of its last decode step
    admitted_step: I8  # its first decode step (since a restart), from 0 in a barrier group
    finished_step: I8  # its last decode step, from 0 in a barrier group
    restarts: I8  # times it went back to the pool (worker lost, or KV memory overflowed)
    request_class: I8 | None = None  # class or tenant; None where the trace has no classes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepTable(RecordTable):
    """One row for each decode step of one barrier group with at least one running request, in order of start; K rows."""

    group: I8  # index of the barrier group
    step: I8  # number of the step, counted from 0 in each group
    start_s: F8  # clock at its start
    duration_s: F8  # its length
    envelope: F8  # largest load of the group's workers, KV tokens
    load_sum: F8  # their total load, KV tokens
    load_min: F8  # their smallest load, KV tokens
    local_max_s: F8  # seconds of work without the overhead C, of the group's slowest worker
    local_sum_s: F8  # the same, summed over its workers
    running: I8  # running requests of the group
    running_all: I8  # running requests of all groups at that moment, this one included
    admitted: I8  # requests of the group that were admitted since its last step and begin to decode at this one
    tokens: I8  # output tokens the step produced
    energy_busy_idle_j: F8  # joules under one of the two accountings of `cost.power`
    energy_step_average_j: F8  # joules under the other


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WorkerTable(RecordTable):
    """Samples of all G workers of the fleet at every `stride`-th step of each group, in order of time; S rows.

    When the table is full, every other sample is dropped and the stride doubles.
    """

    step: I8  # int64[S], number of the step sampled, counted from 0 in its group
    group: I8  # int64[S], the barrier group whose step it is; workers of other groups are shown as they are at that moment
    start_s: F8  # float64[S], clock at the start of that step
    duration_s: F8  # float64[S], its length
    load: F8  # float64[S, G], KV tokens of each worker
    running: I8  # int64[S, G], running requests of each worker
    stride: int  # steps from one sample of a group to the next, at the end of the run; 1 = every step is here
    #: float64[S, G], KV tokens of each worker's longest request; None if the step-time law does not need them
    longest: F8 | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DecisionTable(RecordTable):
    """One row for each decision of the policy; D rows."""

    decision: I8  # its running number, counted from 0
    now_s: F8  # clock at the decision
    waiting: I8  # waiting requests before the decision
    free_slots: I8  # free slots of the fleet before the decision
    admitted: I8  # number of requests that it sent to workers
    bound: F8  # a proven lower bound on the policy's own objective, given by the policy; nan if it gave no bound


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a run: enough to compute every metric and to describe the run."""

    workers: int  # number of workers in the fleet
    slots: int  # slots of one worker (the largest number, if they differ)
    slots_total: int  # slots of the whole fleet
    group_sizes: tuple[int, ...]  # number of workers of each barrier group; the workers of a group have consecutive indices
    #: overhead C of a step with its synchronisation term, seconds: one value for each group, or one for all
    overhead_s: tuple[float, ...]
    #: t_l of a linear step-time law, seconds a KV token of the heaviest worker; nan for any other law
    seconds_per_token: float
    #: ``saturated`` (the pool is kept full), ``timed`` (at recorded times) or ``closed`` (a user's next request follows the
    #: last answer)
    arrivals: str
    pool: int  # requests in the pool of saturated arrivals; 0 otherwise
    seed: int  # key of the run's random draws
    policy: str  # with its options, as the user wrote it
    predictor: str = ""  # its name, or empty
    oracle: bool = False  # whether true output lengths were shown to the policy or predictor, which is impossible live
    prefill: bool = False  # whether prefill takes time; if not, a time to first token includes no prefill


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Sums over the whole run, counted while it runs, so they need no record tables."""

    requests: int  # completed ones
    output_tokens: int  # of completed requests
    steps: int  # decode steps of all groups
    decisions: int  # of the policy
    makespan_s: float  # final clock, drain included, seconds
    #: KV tokens, summed over steps and workers. At a drift of 1, with all requests completed, it is the sum of
    #: ``o*s + o*(o-1)/2``, where s is a request's prompt tokens and o its output tokens.
    load_steps: float
    active_steps: int  # sum over steps of running requests; ``sum o`` at one token a step
    restarts: int  # times that a request went back to the pool
    #: steps in overload (BF-IO Definition 1): the pool could fill all free slots even without the requests of its most
    #: frequent prompt length
    overloaded_steps: int
    #: other counts of the host by name, for instance fallbacks of a predictor
    counted: dict[str, int] = field(default_factory=dict)


_GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, are spread evenly


class Worked:
    """Descriptor of a field that may be set to a request table, or to a function without arguments that makes it.

    The first read calls the function and stores its table; later reads give that table. The default is None.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, run: Any, owner: type) -> RequestTable | None:
        if run is None:
            return None  # the field's default
        value: Any = run.__dict__[self.name]
        if callable(value):
            run.__dict__[self.name] = value = cast("Callable[[], RequestTable | None]", value)()
        return value

    def __set__(self, run: Any, value: RequestTable | Callable[[], RequestTable] | None) -> None:
        run.__dict__[self.name] = value


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated (or recorded) run of a fleet. It can be pickled.

    Args:
        conditions, totals: its conditions, and sums over the run.
        hashed, measured: functions that compute `digest` and `summary`; each is called once at most, on first use.
        requests: one row for each completed request, or a function that makes the table on first read; None if records were
            off.
        steps: one row for each decode step; None if records were off.
        workers, decisions: samples of every worker, and one row for each decision of the policy; None unless asked for.
        trace: the trace that was run (for report headers), or None.
    """

    conditions: Conditions
    totals: Totals
    hashed: Callable[[], str]
    measured: Callable[[], dict[str, Any]]
    requests: Worked = Worked()
    steps: StepTable | None = None
    workers: WorkerTable | None = None
    decisions: DecisionTable | None = None
    trace: Trace | None = None

    def __repr__(self) -> str:
        workload = (self.trace.name if self.trace is not None else "") or "a workload"
        return f"<run of {self.conditions.policy} on {workload}, {counted(self.totals.requests, 'request')}>"

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of (request id, worker, admission step, completion step) in id order and the final clock."""
        return self.hashed()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every metric by name (`docs/reference/metrics.md`), None without a value; computed on first use and kept."""
        return self.measured()

    def thinned(self, most: int) -> Run:
        """A copy that keeps at most `most` of its steps, spread evenly, for charts; the run itself if it has no more.

        Digest and summary are those of all steps.
        """
        if self.steps is None or self.steps.rows <= most:
            return self
        place = np.arange(most)
        jitter = place * _GOLDEN % 1.0  # a fixed stride would take the steps of one group, where groups take turns
        rows = np.unique(((place + jitter) * (self.steps.rows / most)).astype(np.int64))
        kept = Run.__new__(Run)
        kept.__setstate__({**self.__getstate__(), "steps": self.steps.take(rows)})
        return kept

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle: all tables, digest and summary, computed if need be, because functions cannot be pickled."""
        digest, summary = self.digest, self.summary
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("hashed", "measured")}
        return {**state, "digest": digest, "summary": summary}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled run, with `digest` and `summary` as they were computed then."""
        self.__dict__.update(state, hashed=lambda: state["digest"], measured=lambda: state["summary"])


def columns(table: Any) -> dict[str, Any]:
    """The fields of a record table by name, in order, without those that are None; arrays are not copied."""
    found = {f.name: getattr(table, f.name) for f in fields(table)}
    return {name: column for name, column in found.items() if column is not None}


def concatenate(kind: Any, parts: list[Any]) -> Any:
    """Join tables of class `kind` into one; a single table is returned as it is.

    All tables in `parts`, at least one, have the same columns. Of several, the list is emptied to save memory.
    """
    if len(parts) == 1:
        return parts[0]
    names = list(columns(parts[0]))
    pieces = {name: [getattr(part, name) for part in parts] for name in names}
    parts.clear()  # so that each column's pieces are freed once they are joined
    return kind(**{name: np.concatenate(pieces.pop(name)) for name in names})
