"""The host of the engine simulator: resumes the loop after each stop, and makes the run's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from evenstep import compiled, wording
from evenstep.compiled import column
from evenstep.errors import InputError, PolicyError
from evenstep.measure.engine_records import EngineConditions, EngineRequestTable, EngineRun, EngineTotals, IterationTable
from evenstep.measure.records import concatenate
from evenstep.predict.intervals import Quantiles, interval
from evenstep.predict.view import NOTHING, Active, Finished, fit_now, is_oracle
from evenstep.request import Trace
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine import model, plain_door
from evenstep.sim.engine.input import check_trace
from evenstep.sim.engine.model import Iterations, Run
from evenstep.sim.engine.state import Task, iterations, prepared
from evenstep.sim.in_one_piece import Call, at_once, in_one_piece

#: Rows of the first table of iterations: per request, at least and at most. Unused rows cost no memory, and a run that fits
#: one table copies nothing. Each further table is as long as all before it.
_ROWS_A_REQUEST, _LEAST_ROWS, _MOST_ROWS = 8, 1 << 16, 1 << 21


def run(task: Task) -> EngineRun:
    """Run a trace through one engine without ranks; results and errors as of `engine.simulation.simulate_engine`."""
    check_trace(task.trace, task.engine)
    course = Course(prepared(task), task)
    tables: list[Iterations] = []
    size = min(max(_ROWS_A_REQUEST * len(task.trace), _LEAST_ROWS), _MOST_ROWS)
    learned, code = 0, model.TABLE_FULL
    with in_one_piece(has_kernel=course.plain is None) as course.call:
        while code not in (model.DONE, model.STOPPED):
            if code == model.ASK and task.quantiles is not None:
                learned = believe(task.quantiles, task.trace, course.run, learned)
            elif code != model.TABLE_FULL:
                raise PolicyError(f"{task.label}: {said(code, course.run)}")
            elif task.records:
                size = max(size, sum(table.start_s.size for table in tables))
                tables.append(iterations(size))
                course.write_to(tables[-1])
            code = course.advance()
    table = None
    if tables:
        used = int(course.run.now.rows)
        tables[-1] = Iterations._make(column[:used] for column in tables[-1])
        table = concatenate(IterationTable, [IterationTable(*piece) for piece in tables])
    return made(conditions_of(task), course.run, table, counted([course.run], task.policy), task.trace)


class Course:
    """Runs the loop on the state `run`, with the policy's kernel or, without one or at the plain door, its `form_batch`.

    A host may set `call`, the function that calls the loop with a kernel.

    An InputError if the run asks for the compiled door and the policy has no kernel.
    """

    def __init__(self, run: Run, task: Task) -> None:
        from evenstep.sim.engine import loop

        kernel = task.kernel
        if kernel is None and task.door == "compiled":
            raise InputError(task.label, "door", "compiled", "a policy with a compiled rule", "Use door=plain.")
        self.run, self.label = run, task.label
        self.plain = plain_door.PlainDoor(task.policy, run) if kernel is None else None
        self.form_batch: Any = (kernel or plain_door).form_batch_into
        self.loop: Any = compiled.entry(loop.advance)
        self.call: Call = at_once

    def called_often(self) -> None:
        """Make each later `advance` start faster and the kernel slightly slower: for hosts that call it once a batch."""
        self.form_batch = compiled.address_of(self.form_batch)

    def write_to(self, table: Iterations) -> None:
        """Let the loop write its next iterations to `table`, from the first row on; `self.run` becomes a new tuple."""
        self.run = self.run._replace(table=table)
        self.run.now.rows = 0

    def advance(self) -> int:
        """Run the loop until the host is needed; returns the reason, a code of `engine.model` (see `engine.loop.advance`).

        A PolicyError if the policy raised, or its own `form_batch` broke its contract.
        """
        try:
            if self.plain is None:
                return int(self.call(self.loop, self.form_batch, self.run))
            with plain_door.answering(self.plain.answer, self.plain.stop):
                code = int(self.call(self.loop, self.form_batch, self.run))
            if self.plain.error is not None:
                raise self.plain.error
            return code
        except PolicyError as error:
            raise PolicyError(f"{self.label}: {error}") from None
        except Exception as error:
            raise PolicyError(f"{self.label} raised {type(error).__name__}: {error}") from error


def believe(asked: Quantiles, trace: Trace, run: Run, learned: int) -> int:
    """Teach the predictor the newly finished requests, then set the bounds of all requests that have arrived and not joined.

    `learned` is the number of finished requests that it has learned from before; the new number is returned. `Now.asked`
    becomes the number of requests with bounds.
    """
    now, lists, arrival_s = run.now, run.lists, run.requests.arrival_s
    done = lists.finished[learned : int(now.finished)]
    keys = trace.column("prompt_key")
    if done.size:
        asked.predictor.learn(Finished(done, trace.prompt_tokens[done], trace.output_tokens[done], keys[done]))
        fit_now(asked.predictor)
    first = end = int(now.coming)
    while end < lists.coming.size and arrival_s[lists.coming[end]] <= now.now_s:
        end += 1
    rows = lists.coming[first:end]
    left = trace.output_tokens[rows] if is_oracle(asked.predictor) else NOTHING
    caps = trace.column("max_tokens")
    active = Active(rows, np.zeros(rows.size, np.int64), trace.prompt_tokens[rows], keys[rows], caps[rows], left)
    low, high = interval(asked.predictor, active, asked.low, asked.high)
    shown = run.requests.shown
    column(shown, "output_low")[rows], column(shown, "output_high")[rows] = low, high
    now.asked = end
    return learned + done.size


def counted(runs: Sequence[Run], policy: SchedulingPolicy) -> dict[str, int]:
    """The policy's own counters, by the names in its attribute `counts`, summed over engines; empty without the attribute.

    They are the first words of its memory, in the order of the names.
    """
    names: tuple[str, ...] = getattr(policy, "counts", ())
    return {which: sum(int(run.policy.memory[k]) for run in runs) for k, which in enumerate(names)}


def said(code: int, run: Run) -> str:
    """The policy's mistake in words, without its name. `code` is `HOLDS_FOR_EVER` or a code from `BAD_POSITION` on."""
    fixed, now, detail = run.fixed, run.now, int(run.now.detail)
    is_row = code in (model.BAD_TOKENS, model.PICKED_TWICE)
    request = int(run.requests.shown[detail].request_id) if is_row else detail
    what = {
        model.HOLDS_FOR_EVER: f"holds for ever: {wording.counted(now.running, 'request holds', 'requests hold')} memory, "
        f"{wording.counted(now.waiting, 'waits', 'wait')}, none will arrive, and it runs none of them",
        model.BAD_POSITION: f"picked position {detail}, which is no request",
        model.BAD_ORDER: f"picked position {detail} of the queue after a later one",
        model.BAD_TOKENS: f"gave request {request} more tokens than it has left, or none",
        model.PICKED_TWICE: f"picked request {request} twice",
        model.OVER_BUDGET: f"gave out {detail} tokens of a budget of {fixed.token_budget}",
        model.OVER_LIMIT: f"batched {detail} requests; the limit is {fixed.batch_limit}",
        model.OVER_RESIDENTS: f"lets {detail} requests hold memory; resident_limit is {fixed.resident_limit}",
        model.OVER_MEMORY: f"would hold {detail} KV tokens; the memory holds {fixed.kv_capacity}",
        model.BAD_EVICTION: f"evicted position {detail}, which it may not: not running, picked as well, out of order, or "
        "with an empty batch",
        model.MAY_NOT_EVICT: "evicted a request, but overflow=never allows no eviction; a-max and h-sf need none",
    }[code]
    hint = ""
    if code == model.HOLDS_FOR_EVER:
        hint = ". Bound how long it holds (max_hold_s of wait and nested-wait), or stop the run at a time (until_s)"
    return f"{what} (iteration {now.iteration}){hint}"


def conditions_of(task: Task) -> EngineConditions:
    """The conditions of a run for its records; policy, batch-time law and source of the output bounds are given as text."""
    bounds, said = task.bounds, "given"
    if isinstance(bounds, Quantiles):
        said = f"{type(bounds.predictor).__name__} at {bounds.low:g} and {bounds.high:g}"
    elif bounds is None:
        said = "of the trace"
    elif bounds[0] is bounds[1] is task.trace.output_tokens:
        said = "the truth"
    sees_truth = said == "the truth" and getattr(task.policy, "believes", "") != ""
    return EngineConditions(task.label, repr(task.batch_time), said, asdict(task.engine), task.seed, sees_truth)


def made(
    conditions: EngineConditions,
    run: Run,
    table: IterationTable | None,
    counts: Mapping[str, int],
    trace: Trace | None = None,
) -> EngineRun:
    """Make the record of a run, with its table of iterations; None = it was not kept.

    `counts` are further counters by name, for the totals. The table of requests has those that finished, in order of id.
    """
    requests = _request_table(run)
    return EngineRun(conditions, _totals(run, requests, _not_holding(run) | dict(counts)), requests, table, trace)


def _request_table(run: Run) -> EngineRequestTable:
    """The completed requests, in order of request id; their rank is 0."""
    done = np.sort(run.lists.finished[: int(run.now.finished)])
    places: dict[str, Any] = dict.fromkeys(("prompt_tokens", "request_class", "evictions"), run.requests.shown)
    places["output_tokens"] = run.requests.hidden
    times = ("scheduled_s", "first_token_s", "finished_s", "first_iteration", "last_iteration", "wasted_tokens")
    places |= dict.fromkeys(times, run.requests.noted)
    return EngineRequestTable(
        request_id=done,
        arrival_s=run.requests.arrival_s[done],
        rank=np.zeros(done.size, np.int64),
        **{name: column(table, name)[done] for name, table in places.items()},
    )


def _not_holding(run: Run) -> dict[str, int]:
    """``bounds_not_holding``: how many requests have a true length outside their believed bounds; {} without bounds."""
    own = run.lists.coming[: int(run.now.known)]
    high = column(run.requests.shown, "output_high")[own]
    believed = high > 0
    if not believed.any():
        return {}
    low, output = column(run.requests.shown, "output_low")[own], column(run.requests.hidden, "output_tokens")[own]
    return {"bounds_not_holding": int((believed & ((output < low) | (output > high))).sum())}


def _totals(run: Run, requests: EngineRequestTable, counts: Mapping[str, int]) -> EngineTotals:
    now, gaps, done = run.now, int(run.now.gaps), requests.request_id.size
    same = ("evictions", "wasted_tokens", "moved_tokens", "prefill_tokens", "decode_tokens", "gaps")
    return EngineTotals(
        requests=done,
        output_tokens=int(requests.output_tokens.sum()),
        prompt_tokens=int(requests.prompt_tokens.sum()),
        unfinished=run.lists.coming.size - done,
        iterations=int(now.iteration),
        **{name: int(getattr(now, name)) for name in same},
        makespan_s=float(now.now_s),
        busy_s=float(now.busy_s),
        gap_mean_s=float(now.gap_sum_s) / gaps if gaps else math.nan,
        gap_max_s=float(now.gap_max_s),
        gap_counts=run.gaps,
        counted=dict(counts),
    )
