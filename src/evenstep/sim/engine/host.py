"""Runs one engine: checks its input, lets the plain or the compiled loop go on, and makes the run's tables."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sized
from dataclasses import asdict
from typing import Any, Literal, cast

import numpy as np

from evenstep import compiled
from evenstep.cost.batch import BatchTime
from evenstep.errors import EvenstepError, InputError, PolicyError
from evenstep.measure.engine_records import (
    EngineConditions,
    EngineRequestTable,
    EngineRun,
    EngineTotals,
    IterationTable,
)
from evenstep.predict.intervals import Quantiles, interval
from evenstep.predict.view import NOTHING, Active, Finished, fit_now, is_oracle
from evenstep.request import F8, I8, Trace
from evenstep.scheduling.order import order_of
from evenstep.scheduling.view import (
    CLASS,
    EVICTIONS,
    HIGH,
    ID,
    LIMITS,
    LOW,
    PROMPT,
    SchedulingPolicy,
    whole_blocks,
)
from evenstep.sim.engine import layout as at
from evenstep.sim.engine.layout import EngineState, limited
from evenstep.sim.engine.simulation import Engine

#: Rows of the first table of iterations: for each request, at least and at most. What no iteration fills is never touched,
#: and a run that fits one table copies nothing. Each further table is as long as all before it.
_ROWS_A_REQUEST, _LEAST_ROWS, _MOST_ROWS = 8, 1 << 16, 1 << 21
_OVERFLOW = {"recompute": at.RECOMPUTE, "restart": at.RESTART, "swap": at.SWAP, "never": at.NEVER}


def run(
    trace: Trace, policy: SchedulingPolicy, engine: Engine, batch_time: BatchTime,
    bounds: tuple[I8, I8] | Quantiles | None, *, seed: int, records: bool,
    door: Literal["auto", "plain", "compiled"], until_s: float, name: str,
) -> EngineRun:  # fmt: skip
    """One run; arguments and errors as in `sim.engine.simulate_engine`."""
    label = name or type(policy).__name__
    check_trace(trace, engine)
    bounds = shown(trace, policy, bounds)
    asked = bounds if isinstance(bounds, Quantiles) else None
    low, high = bounds_of(trace, None if isinstance(bounds, Quantiles) else bounds, asked is not None)
    state = started(trace, policy, engine, low, high, seed, until_s)
    state.numbers_i[at.ASKS] = int(asked is not None)
    learned = 0
    memory = np.zeros(int(getattr(policy, "memory_size", 0)), np.int64)
    loop = loop_of(policy, state, batch_time, memory, door, label)
    tables: list[tuple[I8, F8]] = []
    size = min(max(_ROWS_A_REQUEST * len(trace), _LEAST_ROWS), _MOST_ROWS) if records else 0
    code = at.TABLE_FULL
    while True:
        if code == at.TABLE_FULL:
            size = max(size, sum(i.shape[1] for i, _ in tables))
            tables.append((np.zeros((at.TABLE_I, size), np.int64), np.zeros((2, size))))
            state.state_i[at.TABLE_ROWS] = 0
        code = advanced(loop, *tables[-1], label)
        if code in (at.DONE, at.STOPPED):
            break
        if asked is not None and code == at.ASK:
            learned = believe(asked, trace, state, learned)
            continue
        if code != at.TABLE_FULL:
            raise PolicyError(f"{label}: {said(code, state)}")
    used = int(state.state_i[at.TABLE_ROWS])
    tables[-1] = (tables[-1][0][:, :used], tables[-1][1][:, :used])
    kept = getattr(loop, "memory", memory)
    names: tuple[str, ...] = getattr(policy, "counts", ())
    counts = {which: int(word) for which, word in zip(names, kept, strict=False)}
    return made(trace, engine, batch_time, state, tables if records else [], label, bounds, counts)


def believe(asked: Quantiles, trace: Trace, state: EngineState, learned: int) -> int:
    """Bounds of the requests that arrive now, after the predictor has learned what has finished; how many that are."""
    done = state.finished[learned : int(state.state_i[at.FINISHED])]
    keys = trace.column("prompt_key")
    if done.size:
        asked.predictor.learn(
            Finished(done, trace.prompt_tokens[done], trace.output_tokens[done], keys[done])
        )
        fit_now(asked.predictor)
    first, now = int(state.state_i[at.COMING]), float(state.state_f[at.NOW])
    end = first
    while end < state.coming.size and state.arrival_s[state.coming[end]] <= now:
        end += 1
    rows = state.coming[first:end]
    left = trace.output_tokens[rows] if is_oracle(asked.predictor) else NOTHING
    caps = trace.column("max_tokens")
    active = Active(
        rows, np.zeros(rows.size, np.int64), trace.prompt_tokens[rows], keys[rows], caps[rows], left
    )
    low, high = interval(asked.predictor, active, asked.low, asked.high)
    state.rows[LOW, rows], state.rows[HIGH, rows] = low, high
    state.state_i[at.ASKED] = end
    return learned + done.size


def shown(
    trace: Trace, policy: Any, bounds: tuple[I8, I8] | Quantiles | None
) -> tuple[I8, I8] | Quantiles | None:
    """The given bounds; for a policy of hindsight (``believes = "truth"``) always the true lengths."""
    if getattr(policy, "believes", "") == "truth":
        return trace.output_tokens, trace.output_tokens
    return bounds


def bounds_of(trace: Trace, bounds: tuple[I8, I8] | None, none: bool) -> tuple[I8, I8]:
    """Believed bounds of the output lengths: given, or the trace's columns, or none (0 and 0).

    Raises:
        InputError: not two columns of whole numbers, or a lower bound that is negative or above the upper.
    """
    nothing = np.zeros(len(trace), np.int64)
    pair: Any = bounds
    if none:
        pair = nothing, nothing
    elif bounds is None:
        pair = trace.column("output_low"), trace.column("output_high")
    elif not (isinstance(pair, tuple | list) and len(cast("Sized", pair)) == 2):
        raise InputError("bounds", "bounds", pair, "a pair of columns, lowest and highest output tokens")
    low, high = (_whole("bounds", name, one) for name, one in zip(("low", "high"), pair, strict=True))
    for which, column in (("low", low), ("high", high)):
        if column.shape != (len(trace),):
            raise InputError("bounds", which, f"{column.size} numbers", f"{len(trace)}, one a request")
    wrong = np.flatnonzero((low > high) | (low < 0))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            "bounds",
            f"request {row}",
            f"[{low[row]}, {high[row]}]",
            "0 <= low <= high tokens",
            "0 and 0 is unknown.",
        )
    return low, high


def _whole(where: str, field: str, column: Any) -> I8:
    """A column of whole numbers, int64[*].

    Raises:
        InputError: a value that is not whole; it is named.
    """
    numbers = np.asarray(column)
    if numbers.dtype.kind not in "iuf":
        raise InputError(where, field, column, "a column of integers")
    if numbers.dtype.kind == "f" and not (is_whole := numbers == np.floor(numbers)).all():
        row = int(np.argmin(is_whole))
        raise InputError(where, f"{field} of request {row}", float(numbers.flat[row]), "an integer")
    return np.ascontiguousarray(numbers, np.int64)


def check_trace(trace: Trace, engine: Engine) -> None:
    """Refuse lengths below 1, arrivals that are no times, and requests the memory cannot hold.

    Raises:
        InputError: naming the request and the value.
    """
    where = trace.name or "trace"
    for name in ("prompt_tokens", "output_tokens"):
        column = _whole(where, name, getattr(trace, name))
        if column.shape != (len(trace),):
            raise InputError(where, name, f"{column.size} numbers", f"{len(trace)}, one a request")
        if column.size and column.min() < 1:
            row = int(np.argmax(column < 1))
            raise InputError(where, f"{name} of request {row}", int(column[row]), "an integer >= 1")
    arrival_s = trace.column("arrival_s")
    if arrival_s.shape != (len(trace),):
        raise InputError(where, "arrival_s", f"{arrival_s.size} numbers", f"{len(trace)}, one a request")
    is_time = (arrival_s >= 0) & (arrival_s < math.inf)
    if not is_time.all():
        row = int(np.argmin(is_time))
        raise InputError(where, f"arrival_s of request {row}", float(arrival_s[row]), "finite seconds >= 0")
    if not engine.kv_tokens or not len(trace):
        return
    last = 0 if engine.hold_produced or engine.first_token == "decode" else 1
    needed = trace.prompt_tokens + trace.output_tokens - last
    row = int(np.argmax(needed))
    capacity = engine.kv_tokens // engine.block_tokens * engine.block_tokens
    if whole_blocks(int(needed[row]), engine.block_tokens) > capacity:
        text = f"{trace.prompt_tokens[row]} + {trace.output_tokens[row]} tokens"
        raise InputError(
            where, f"prompt and output of request {row}", text,
            f"at most the {capacity} KV tokens of the engine", "Leave it out, or give the engine more memory.",
        )  # fmt: skip


def started(
    trace: Trace, policy: SchedulingPolicy, engine: Engine, low: I8, high: I8, seed: int, until_s: float
) -> EngineState:
    """The state before the first iteration."""
    classes = trace.column("request_class")
    state = EngineState.empty(len(trace), int(classes.max(initial=0)) + 1)
    block = engine.block_tokens
    capacity = engine.kv_tokens // block * block if engine.kv_tokens else limited(0) // block * block
    is_decode = engine.first_token == "decode"
    state.numbers_i[:] = (
        limited(engine.token_budget), limited(engine.batch_limit), capacity, block, _OVERFLOW[engine.overflow],
        is_decode, engine.hold_produced and not is_decode, classes.max(initial=0) + 1, seed, 0, engine.keeps_evicted,
        engine.schedules_ahead, False, limited(engine.residents),
    )  # fmt: skip
    state.numbers_f[:] = (*engine.swap_s, *engine.recompute_s, engine.overhead_s)
    rows, n = state.rows, len(trace)
    rows[ID, :n], rows[CLASS, :n], rows[PROMPT, :n] = trace.request_id, classes, trace.prompt_tokens
    rows[LOW, :n], rows[HIGH, :n] = low, high
    state.hidden[at.OUTPUT, :n] = trace.output_tokens
    state.hidden[at.FIRST_ITERATION] = state.hidden[at.LAST_ITERATION] = -1
    state.arrival_s[:] = trace.column("arrival_s")
    state.coming[:] = coming_order(trace, policy, state, seed)
    state.state_i[at.KNOWN] = n
    state.state_i[at.FREE] = capacity
    state.state_i[at.UNUSED] = capacity // block
    state.state_f[at.UNTIL] = until_s
    return state


def coming_order(trace: Trace, policy: SchedulingPolicy, state: EngineState, seed: int) -> I8:
    """Rows by arrival, equal times by key: so that a queue that starts full is filled from its end."""
    arrival_s, rows = state.arrival_s, state.rows[:, : len(trace)]
    if np.all(arrival_s[1:] > arrival_s[:-1]):
        return np.arange(len(trace), dtype=np.int64)
    keys = order_of(policy).keys(
        seed=seed, request=rows[ID], arrival_s=arrival_s, prompt=rows[PROMPT], low=rows[LOW], high=rows[HIGH]
    )
    return np.lexsort((keys, arrival_s)).astype(np.int64)


class CompiledLoop:
    """The compiled loop with a policy's kernel inside; arrays are allocated once."""

    def __init__(
        self, kernel: Any, policy: Any, state: EngineState, batch_time: BatchTime, memory: I8
    ) -> None:
        from evenstep.sim.engine import loop

        self.advance_kernel, self.form = loop.advance, kernel.form_batch_into
        requests = state.running.size
        parameters = compiled.parameters(policy)
        most = min(requests, 1 << 30)
        ints, floats = kernel.scratch(most, most, parameters) if hasattr(kernel, "scratch") else (0, 0)
        law = np.ascontiguousarray(batch_time.table())
        self.arguments = (
            state.state_i, state.state_f, state.numbers_i, state.numbers_f, state.rows, state.hidden, state.times,
            state.arrival_s, state.coming, state.running, state.waiting, state.finished, state.arrived, state.gaps,
            state.batch, order_of(policy).weights, law, memory, parameters,
            np.zeros(int(ints), np.int64), np.zeros(int(floats)), np.zeros(LIMITS, np.int64), np.zeros(4, np.int64),
            np.zeros((2, requests), np.int64), np.zeros(requests, np.int64),
        )  # fmt: skip

    def called_often(self) -> None:
        """Calls are short from now on: their own overhead counts."""
        self.advance_kernel, self.form = (
            compiled.entry(self.advance_kernel),
            compiled.address_of(self.form),
        )

    def advance(self, table_i: I8, table_f: F8) -> int:
        return int(self.advance_kernel(self.form, *self.arguments, table_i, table_f))


def loop_of(policy: Any, state: EngineState, batch_time: BatchTime, memory: I8, door: str, label: str) -> Any:
    """The loop a door stands for."""
    kernel = compiled.kernel_of(policy) if door != "plain" else None
    if kernel is None and door == "compiled":
        raise InputError(label, "door", "compiled", "a policy with a kernel beside it", "Use door=plain.")
    if kernel is not None:
        return CompiledLoop(kernel, policy, state, batch_time, memory)
    return importlib.import_module("evenstep.sim.engine.reference").PlainLoop(
        policy, state, batch_time, memory
    )


def advanced(loop: Any, table_i: I8, table_f: F8, label: str) -> int:
    """Why the loop stopped; any error of the policy becomes a `PolicyError`."""
    try:
        return loop.advance(table_i, table_f)
    except PolicyError as error:
        raise PolicyError(f"{label}: {error}") from None
    except EvenstepError:
        raise
    except Exception as error:
        raise PolicyError(f"{label} raised {type(error).__name__}: {error}") from error


def said(code: int, state: EngineState) -> str:
    """The policy's mistake, by the loop's code."""
    detail, iteration = int(state.state_i[at.DETAIL]), int(state.state_i[at.ITERATION])
    numbers = state.numbers_i
    what = {
        at.HOLDS_FOR_EVER: f"holds for ever: {state.state_i[at.RUNS]} requests hold memory, {state.state_i[at.WAITS]} "
        "wait, none will arrive, and it runs none of them",
        at.BAD_POSITION: f"picked position {detail}, which is no request",
        at.BAD_ORDER: f"picked position {detail} of the queue after a later one",
        at.BAD_TOKENS: f"gave request {detail} more tokens than it has left, or none",
        at.PICKED_TWICE: f"picked request {detail} twice",
        at.OVER_BUDGET: f"gave out {detail} tokens of a budget of {numbers[at.BUDGET]}",
        at.OVER_LIMIT: f"batched {detail} requests; the limit is {numbers[at.LIMIT]}",
        at.OVER_RESIDENTS: f"lets {detail} requests hold memory; resident_limit is {numbers[at.RESIDENTS]}",
        at.OVER_MEMORY: f"would hold {detail} KV tokens; the memory holds {numbers[at.CAPACITY]}",
        at.BAD_EVICTION: f"evicted position {detail}, which it may not: not running, picked as well, out of order, or "
        "with an empty batch",
        at.MAY_NOT_EVICT: "evicted a request, but overflow=never allows no eviction; a-max and h-sf need none",
    }[code]
    hint = ""
    if code == at.HOLDS_FOR_EVER:
        hint = ". Bound how long it holds (max_hold_s of wait and nested-wait), or stop the run at a time (until_s)"
    return f"{what} (iteration {iteration}){hint}"


def made(
    trace: Trace, engine: Engine, batch_time: BatchTime, state: EngineState, tables: list[tuple[I8, F8]], label: str,
    bounds: tuple[I8, I8] | Quantiles | None, counts: dict[str, int],
) -> EngineRun:  # fmt: skip
    """The run's tables and totals."""
    done = np.sort(state.finished[: int(state.state_i[at.FINISHED])])
    hidden, times, rows = state.hidden, state.times, state.rows
    requests = EngineRequestTable(
        request_id=done, prompt_tokens=rows[PROMPT, done], output_tokens=hidden[at.OUTPUT, done],
        request_class=rows[CLASS, done], arrival_s=state.arrival_s[done], scheduled_s=times[at.SCHEDULED_S, done],
        first_token_s=times[at.FIRST_TOKEN_S, done], finished_s=times[at.FINISHED_S, done],
        first_iteration=hidden[at.FIRST_ITERATION, done], last_iteration=hidden[at.LAST_ITERATION, done],
        evictions=rows[EVICTIONS, done], wasted_tokens=hidden[at.WASTED, done], rank=np.zeros(done.size, np.int64),
    )  # fmt: skip
    low, high, output = rows[LOW, : len(trace)], rows[HIGH, : len(trace)], hidden[at.OUTPUT, : len(trace)]
    believed = high > 0
    outside = int((believed & ((output < low) | (output > high))).sum())
    number, gaps = state.state_i, int(state.state_i[at.GAPS])
    totals = EngineTotals(
        requests=done.size, output_tokens=int(requests.output_tokens.sum()),
        prompt_tokens=int(requests.prompt_tokens.sum()), unfinished=len(trace) - done.size,
        iterations=int(number[at.ITERATION]), evictions=int(number[at.EVICTED_ALL]),
        wasted_tokens=int(number[at.WASTED_ALL]), moved_tokens=int(number[at.MOVED]),
        prefill_tokens=int(number[at.PREFILL_ALL]), decode_tokens=int(number[at.DECODE_ALL]),
        makespan_s=float(state.state_f[at.NOW]), busy_s=float(state.state_f[at.BUSY]), gaps=gaps,
        gap_mean_s=float(state.state_f[at.GAP_SUM]) / gaps if gaps else math.nan,
        gap_max_s=float(state.state_f[at.GAP_MAX]), gap_counts=state.gaps,
        counted=({"bounds_not_holding": outside} if believed.any() else {}) | counts,
    )  # fmt: skip
    conditions = EngineConditions(
        policy=label, batch_time=repr(batch_time), bounds=said_of(bounds, trace),
        engine=asdict(engine), seed=int(state.numbers_i[at.SEED]),
    )  # fmt: skip
    return EngineRun(conditions, totals, requests, iterations(tables) if tables else None, trace)


def said_of(bounds: tuple[I8, I8] | Quantiles | None, trace: Trace) -> str:
    """Where the beliefs came from, in words."""
    if isinstance(bounds, Quantiles):
        return f"{type(bounds.predictor).__name__} at {bounds.low:g} and {bounds.high:g}"
    if bounds is None:
        return "of the trace"
    return "the truth" if bounds[0] is bounds[1] is trace.output_tokens else "given"


def iterations(tables: list[tuple[I8, F8]]) -> IterationTable:
    """The table of iterations out of its pieces."""
    if len(tables) == 1:
        return IterationTable(*tables[0][1], *tables[0][0])
    return IterationTable(
        *np.concatenate([f for _, f in tables], axis=1), *np.concatenate([i for i, _ in tables], axis=1)
    )
