"""The engine simulator's state for one run, before the first iteration; and that of each rank of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from evenstep import compiled
from evenstep.compiled import Record, Rows, fill, one, rows
from evenstep.cost.batch import FEATURES, BatchTime
from evenstep.measure.quantiles import BINS
from evenstep.predict.intervals import Quantiles
from evenstep.request import F8, I8, Trace
from evenstep.scheduling.order import order_of
from evenstep.scheduling.view import LIMITS, UNLIMITED, SchedulingPolicy
from evenstep.sim.engine import model
from evenstep.sim.engine.input import bounds_of
from evenstep.sim.engine.model import Fixed, Iterations, Now, Run
from evenstep.sim.engine.settings import Engine

_OVERFLOW = {"recompute": model.RECOMPUTE, "restart": model.RESTART, "swap": model.SWAP, "never": model.NEVER}
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The arguments of a run; see `engine.simulation.simulate_engine`. `label` is the policy's name, for errors and reports.

    `bounds` are the output lengths that the policy plans with: low and high tokens, a predictor's quantiles, or None for the
    trace's columns. A policy with hindsight gets the true lengths as both.
    """

    trace: Trace
    policy: SchedulingPolicy
    engine: Engine
    batch_time: BatchTime
    bounds: tuple[I8, I8] | Quantiles | None
    seed: int
    records: bool
    door: Literal["auto", "plain", "compiled"]
    until_s: float
    label: str

    @property
    def quantiles(self) -> Quantiles | None:
        """Settings of bounds that a predictor gives at arrival (`Quantiles`); None if the bounds are given in advance."""
        return self.bounds if isinstance(self.bounds, Quantiles) else None

    @property
    def kernel(self) -> Any:
        """The policy's compiled door (`compiled.kernel_of`); None if it has no rule or the run uses the plain door."""
        return compiled.kernel_of(self.policy) if self.door != "plain" else None

    def needs(self, count: int) -> tuple[F8, int, int]:
        """The kernel's parameters, and its int and float words of working space for `count` requests; 0 without kernel."""
        if self.kernel is None:
            return np.zeros(0), 0, 0
        parameters, most = compiled.parameters(self.policy), min(count, 1 << 30)
        ints, floats = self.kernel.scratch(most, most, parameters)
        return parameters, int(ints), int(floats)


def prepared(task: Task) -> Run:
    """Make the state before the first iteration, with an empty table of iterations. An InputError for bad bounds."""
    fixed, trace, count = fixed_of(task), task.trace, len(task.trace)
    now = _empty(fixed)
    now.known = count
    requests = unsent(count)
    low, high = bounds_of(trace, task.bounds)
    fill(
        requests.shown,
        request_id=trace.request_id,
        request_class=trace.column("request_class"),
        prompt_tokens=trace.prompt_tokens,
        output_low=low,
        output_high=high,
    )
    fill(requests.hidden, output_tokens=trace.output_tokens)
    requests.arrival_s[:] = trace.column("arrival_s")
    lists = _lists(count)
    lists.coming[:] = _coming(task, requests)
    classes = int(trace.column("request_class").max(initial=0)) + 1
    return Run(
        fixed=fixed,
        now=now,
        requests=requests,
        lists=lists,
        kept=rows(model.Kept, count),
        policy=_handed(task, count, classes),
        batch=np.zeros(FEATURES),
        law=np.ascontiguousarray(task.batch_time.table(), np.float64),
        gaps=np.zeros(BINS, np.int64),
        table=iterations(0),
    )


def rank_of(front: Run, task: Task) -> Run:
    """Make the state of one rank, without requests. It shares the table of requests with `front`, the state of all ranks.

    The caller adds each request of the rank to `Lists.coming`, and counts it in `Now.known`.
    """
    fixed, count = fixed_of(task), front.lists.coming.size
    fixed.is_rank, fixed.asks, fixed.until_s = 1, 0, np.inf
    return front._replace(
        fixed=fixed,
        now=_empty(fixed),
        lists=_lists(count),
        kept=rows(model.Kept, count),
        policy=_handed(task, count, front.policy.arrived.size),
        batch=np.zeros(FEATURES),
        gaps=np.zeros(BINS, np.int64),
        table=iterations(1),
    )


def iterations(size: int) -> Iterations:
    """A table of iterations with `size` rows, all 0: views of one array of times and one of counts."""
    floats, ints = np.zeros((2, size)), np.zeros((len(Iterations._fields) - 2, size), np.int64)
    return named(floats, ints)


def named(floats: F8, ints: I8) -> Iterations:
    """The rows of float64[2, *] and int64[10, *] as the columns of a table of iterations, in order; views, not copies."""
    return Iterations._make((*floats, *ints))


def fixed_of(task: Task) -> Fixed:
    """The settings of a run as the loop reads them; a limit of 0 becomes `UNLIMITED`."""
    engine, fixed = task.engine, one(Fixed)
    block, is_decode = engine.block_tokens, engine.first_token == "decode"
    fixed.token_budget = engine.token_budget or UNLIMITED
    fixed.batch_limit = engine.batch_limit or UNLIMITED
    fixed.resident_limit = engine.residents or UNLIMITED
    fixed.kv_capacity = (engine.kv_tokens or UNLIMITED) // block * block
    fixed.block_tokens = block
    fixed.overflow = _OVERFLOW[engine.overflow]
    fixed.first_decoded = int(is_decode)
    fixed.hold_produced = int(engine.hold_produced and not is_decode)
    fixed.keeps_evicted = int(engine.keeps_evicted)
    fixed.schedules_ahead = int(engine.schedules_ahead)
    fixed.asks = int(task.quantiles is not None)
    fixed.seed = task.seed
    fixed.swap_per_token_s, fixed.swap_s = engine.swap_s
    fixed.drop_per_square_s, fixed.drop_s = engine.recompute_s
    fixed.overhead_s, fixed.until_s = engine.overhead_s, task.until_s
    return fixed


def unsent(count: int) -> model.Requests:
    """A table of `count` requests, all words 0; the caller fills in the known fields."""
    table = np.zeros((count, len(model.Shown.__annotations__)), np.int64)
    shown, hidden, noted = records_over(table, model.Shown), rows(model.Hidden, count), rows(model.Noted, count)
    return model.Requests(table, shown, hidden, noted, np.zeros(count))


def records_over(table: I8, shape: type[R]) -> Rows[R]:
    """View the rows of an int64 table as records of the class `shape`, whose words are all ints. The memory is the same."""
    kinds: Any = np.dtype((shape, [(name, np.int64) for name in shape.__annotations__]), align=True)
    return table.view(kinds)[:, 0] if table.size else np.zeros(0, kinds)  # type: ignore[return-value]


def _coming(task: Task, requests: model.Requests) -> I8:
    """Rows in order of arrival, int64[N]; equal times in order of the queue's key, so that the queue grows at its end."""
    arrival_s = requests.arrival_s
    if np.all(arrival_s[1:] > arrival_s[:-1]):
        return np.arange(arrival_s.size, dtype=np.int64)
    keys = order_of(task.policy).keys(task.seed, requests.table.T, arrival_s)
    return np.lexsort((keys, arrival_s)).astype(np.int64)


def _empty(fixed: Fixed) -> Now:
    """The progress before the first iteration: all memory is free, all else 0."""
    now = one(Now)
    now.kv_free = fixed.kv_capacity
    now.unused_blocks = fixed.kv_capacity // fixed.block_tokens
    return now


def _lists(count: int) -> model.Lists:
    return model.Lists(*(np.zeros(count, np.int64) for _ in model.Lists._fields))


def _handed(task: Task, count: int, classes: int) -> model.Policy:
    """The kernel's arguments before the first iteration, for `count` requests of `classes` classes."""
    policy, (parameters, ints, floats) = task.policy, task.needs(count)
    return model.Policy(
        order=order_of(policy).weights,
        limits=np.zeros(LIMITS, np.int64),
        counts=np.zeros(4, np.int64),
        arrived=np.zeros(classes, np.int64),
        memory=np.zeros(int(getattr(policy, "memory_size", 0)), np.int64),
        parameters=parameters,
        scratch_i=np.zeros(ints, np.int64),
        scratch_f=np.zeros(floats),
        picked=np.zeros((2, count), np.int64),
        evicted=np.zeros(count, np.int64),
    )
