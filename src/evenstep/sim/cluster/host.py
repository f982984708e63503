"""The host of the compiled simulator: checks the input, resumes the loop after each stop, gathers the records."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import numpy as np

from evenstep import compiled
from evenstep.compiled import column, cut, fill
from evenstep.cost.view import StepTime
from evenstep.errors import EvenstepError, InputError, PolicyError
from evenstep.measure import records
from evenstep.measure.digest import StreamingDigest, digest_of
from evenstep.measure.records import RequestTable, Run, StepTable
from evenstep.measure.tally import Tally
from evenstep.predict.gate import Gate
from evenstep.predict.oracle import Oracle
from evenstep.predict.view import NOTHING, Active, Finished, Fits, Predictor, SurvivalCurve, fit_now, is_oracle
from evenstep.request import I8, Trace
from evenstep.routing.view import expects_loads, horizon_of, plain_only
from evenstep.sim.cluster import model
from evenstep.sim.cluster import short_state as short_loop
from evenstep.sim.cluster.drift import Drift
from evenstep.sim.cluster.input import check_input
from evenstep.sim.cluster.model import ShortRun
from evenstep.sim.cluster.plain_door import PlainDoor, door_of
from evenstep.sim.cluster.prefix_caches import PrefixCaches
from evenstep.sim.cluster.state import Options, State, prepared
from evenstep.sim.in_one_piece import in_one_piece
from evenstep.wording import counted


def run(
    trace: Trace,
    policy: Any,
    cluster: Any,
    step_time: StepTime,
    predictor: Predictor | None,
    options: Options,
    *,
    door: str,
    name: str,
) -> Run:
    """Run a trace through a cluster, whose `prefill` is not applied here; results and errors as of `simulation.simulate`."""
    name = name or type(policy).__name__
    kernel = None if door == "plain" or plain_only(policy) else compiled.kernel_of(policy)
    if door == "compiled" and kernel is None:
        raise InputError(name, "door", door, "auto or plain", "The policy has no compiled rule.")
    check_input(trace, policy, cluster, predictor, name)
    prediction = _prediction(policy, predictor)
    drift, every = cluster.drift, int(getattr(predictor, "refresh_every", 16))
    every *= drift.tokens_per_step // drift.predicted_per_step  # the loop counts produced tokens
    options = replace(options, prediction=prediction, refresh_every=every)
    state = prepared(trace, policy, cluster, step_time, options)
    _open_closed_loop(state, cluster)
    horizon, law = horizon_of(policy), step_time.table()
    conditions = records.Conditions(
        workers=cluster.workers,
        slots=max(cluster.slots_of),
        slots_total=sum(cluster.slots_of),
        group_sizes=cluster.group_sizes,
        overhead_s=tuple(step_time.overhead_seconds(size) for size in cluster.group_sizes),
        seconds_per_token=float(law.seconds[0, 1] / law.load[1]) if short_loop.is_linear(law) else math.nan,
        arrivals=cluster.arrivals,
        pool=cluster.pool if cluster.arrivals == "saturated" else 0,
        seed=options.seed,
        policy=name,
        predictor="" if horizon == 0 else type(predictor).__name__.lower(),
        oracle=horizon > 0 and is_oracle(predictor),
        prefill=cluster.arrivals == "timed" and cluster.prefill_base_s + cluster.prefill_per_token_s > 0,
    )
    gathered = _Gathered(conditions, options)
    asked = _Predictions(predictor, horizon, trace, drift, prediction) if prediction >= model.DEPARTURES else None
    caches = PrefixCaches(trace, cluster) if cluster.prefix_cache_blocks else None
    plain = door_of(policy, kernel, state, name, caches)
    _carry(state, kernel, plain, gathered, asked, name)
    counted = asked.gate.counted() if asked is not None else {}
    counted |= caches.counted() if caches is not None else {}
    counted["held_decisions"] = int(state.run.now.held)
    return _finished(state, gathered, trace, counted)


def _prediction(policy: Any, predictor: Any) -> int:
    """The kind of prediction that the loop uses, `NO_PREDICTION` .. `EXPECTED`: it depends on policy and predictor."""
    if horizon_of(policy) == 0:
        return model.NO_PREDICTION
    if type(predictor) is Oracle:
        return model.ORACLE
    return model.EXPECTED if expects_loads(policy) and isinstance(predictor, SurvivalCurve) else model.DEPARTURES


def _carry(
    state: State, kernel: Any, plain: PlainDoor | None, gathered: _Gathered, asked: _Predictions | None, name: str
) -> None:
    """Call the loop until the run is done, and do at each stop what it needs; a PolicyError reports a policy's mistake."""
    answering: AbstractContextManager[None] = nullcontext()
    if plain is None:
        route = kernel.route_into if asked is None else compiled.address_of(kernel.route_into)
    else:
        from evenstep.sim.cluster import ask

        route, answering = ask.route_into, ask.answering(plain.answer, plain.stop)
    advance = _loop(isinstance(state.run, ShortRun))
    with answering, in_one_piece(has_kernel=plain is None) as call:
        while (status := call(advance, route, state.run)) != model.DONE:
            if status == model.FLUSH:
                if asked is not None:
                    asked.see(state.run)
                gathered.take(state, more=True)
            elif status == model.GROW:
                state.grow()
                if plain is not None:
                    plain.look_again()
            elif status == model.PREDICT and asked is not None:
                asked.answer(state.run)
            elif plain is not None and plain.error is not None:
                raise plain.error
            else:
                raise _fault(state.run, status, name)
    gathered.take(state, more=False)


@cache
def _loop(is_short: bool) -> Any:
    """The compiled short or long loop, loaded at the first call."""
    if is_short:
        from evenstep.sim.cluster import short_loop as loop
    else:
        from evenstep.sim.cluster import loop
    return compiled.entry(loop.advance)


def loop_of(policy: Any, cluster: Any, step_time: StepTime) -> str:
    """Full name of the module whose compiled loop runs this policy on this fleet, if decisions are not recorded."""
    short = short_loop.fits(cluster, step_time.table(), horizon_of(policy))
    return f"evenstep.sim.cluster.{'short_loop' if short else 'loop'}"


def _open_closed_loop(state: State, cluster: Any) -> None:
    """With closed arrivals, put the users' first requests, or those of the first sessions, into the heap `coming`."""
    run = state.run
    if not isinstance(run, model.Run) or run.fixed.arrivals < model.USERS:
        return
    users = cluster.users or sum(cluster.slots_of)
    if run.fixed.arrivals == model.USERS:
        keys = np.arange(min(users, int(run.fixed.requests)))
        times_s, run.now.coming_sequence = np.zeros(keys.size), users
    else:
        run.now.sessions_next = min(users, run.sessions.left.size)
        roots = run.sessions.roots[: run.sessions.root_offsets[run.now.sessions_next]]
        keys = roots[np.lexsort((roots, run.sessions.think_s[roots]))]
        times_s = run.sessions.think_s[keys]
    while keys.size >= len(cast("model.Run", state.run).coming):
        state.grow()
    run.now.coming = keys.size
    fill(cut(cast("model.Run", state.run).coming, 0, keys.size), time_s=times_s, key=keys)  # a sorted list is a heap


class _Gathered:
    """Empties full record buffers into tables; without records, requests and steps into metrics and digest only."""

    def __init__(self, conditions: records.Conditions, options: Options) -> None:
        self.conditions, self.options = conditions, options
        self.new_tally = partial(Tally, conditions, exact=options.records, slo=options.slo, power=options.power)
        self.tally = self.new_tally()
        self.hash = StreamingDigest()
        self.steps: list[StepTable] = []
        self.decided: list[records.DecisionTable] = []
        self.passing = short_loop.Unrecorded()

    def take(self, state: State, more: bool) -> None:
        """Empty the record buffers; `more` is True if the loop will fill them again."""
        run, now = state.run, state.run.now
        if self.options.records:  # measured and hashed when they are asked for
            self._keep_steps(state, more)
        else:
            steps = _steps_of(run)
            if isinstance(run, ShortRun):
                requests = self.passing.completed(run, state.request_class, steps)
            else:
                requests = done_rows(run, state.request_class, int(now.request_rows))
            self.tally.add_steps(steps)
            self.tally.add_requests(requests)
            self.hash.add(requests.request_id, requests.worker, requests.admitted_step, requests.finished_step)
            now.step_rows = 0
        if isinstance(run, model.Run) and self.options.decisions:
            decided = cut(run.records.decisions, 0, int(now.decision_rows))
            names = ("decision", "now_s", "waiting", "free_slots", "admitted", "bound")
            self.decided.append(records.DecisionTable(**{name: column(decided, name).copy() for name in names}))
        now.request_rows = now.decision_rows = 0

    def _keep_steps(self, state: State, more: bool) -> None:
        """Keep the table of steps, uncopied, if it is full, the run is over or the predictor learns; `more` adds one."""
        run = state.run
        room = run.steps.running.size if isinstance(run, ShortRun) else run.records.steps.step.size
        learns = run.fixed.prediction > model.ORACLE
        if more and not learns and run.now.step_rows < room:
            return
        self.steps.append(_steps_of(run))
        if more:
            state.add_steps(room if learns else sum(table.step.size for table in self.steps))


def done_rows(run: model.Run, request_class: I8 | None, count: int) -> RequestTable:
    """The first `count` completed requests of the loop's records, as a table; `request_class` has the trace's classes.

    With `keep` they are in order of request id, and `count` is all requests; without it, in order of completion. Columns may
    be views of the records.
    """
    done = cut(run.records.done, 0, count)
    if run.fixed.keep:  # every request is at its own row
        row, prompt, output, kinds = np.arange(count), run.requests.prompt, run.requests.output, request_class
    else:
        row = run.records.ended[:count].copy()
        prompt, output = run.requests.prompt[row], run.requests.output[row]
        kinds = None if request_class is None else request_class[row]
    words = ("worker", "admitted_step", "finished_step", "restarts")
    times = ("visible_s", "admitted_s", "first_token_s", "finished_s")
    return RequestTable(
        request_id=row,
        prompt_tokens=prompt,
        output_tokens=output,
        request_class=kinds,
        **{name: column(done, name) for name in (*words, *times)},
    )


def _steps_of(run: model.Run | ShortRun) -> StepTable:
    """The steps since the last visit. Columns that the loop wrote are views, not copies."""
    if isinstance(run, ShortRun):
        return short_loop.step_rows(run)
    rows = int(run.now.step_rows)
    return StepTable(**{name: values[:rows] for name, values in run.records.steps._asdict().items()})


class _Predictions:
    """Asks a predictor about the running requests that are due, and lets it learn from those that end.

    It counts output tokens, or decode steps where loads have profiles (`Drift.predicted_per_step`).
    """

    def __init__(self, predictor: Any, horizon: int, trace: Trace, drift: Drift, prediction: int) -> None:
        self.gate, self.fits = Gate(predictor, horizon), isinstance(predictor, Fits)
        self.expects = prediction == model.EXPECTED
        self.made, columns = drift.predicted_per_step, ("prompt_tokens", "prompt_key", "output_tokens", "max_tokens")
        self.prompts, self.keys, self.lengths, self.caps = (np.asarray(trace.column(c), np.int64) for c in columns)
        if drift.profiles is not None:
            self.lengths, self.caps = drift.steps(trace), np.zeros(len(trace), np.int64)
        self.seen = 0  # completions in the record buffer the predictor has learned from

    def see(self, run: Any) -> None:
        """Let the predictor learn from the completions since the last call; the buffer is about to be emptied."""
        self._learn(run)
        self.seen = 0

    def answer(self, run: Any) -> None:
        """Write the predictor's answers for the loop's due slots, after it has learned from new completions."""
        self._learn(run)
        if self.fits:
            fit_now(self.gate.predictor)
        due = cut(run.ahead.due, 0, int(run.now.due))
        slots = column(due, "slot")
        worker, row = slots // run.fixed.slots_max, column(run.slots.rows, "row")[slots]
        slots = slots[np.argsort(worker * run.fixed.requests + row)]
        fill(due, slot=slots)
        active, made = self._active(run, slots), self.made
        if self.expects:
            run.ahead.curves[slots] = self.gate.curves(active, run.ahead.curves.shape[1] - 1, made)
        else:
            fill(due, steps_left=self.gate.steps_left(active, made))

    def _active(self, run: Any, slots: I8) -> Active:
        """The requests that run in these slots, as a predictor sees them."""
        worker = slots // run.fixed.slots_max
        row, done, admit, finish = (column(run.slots.rows, name)[slots] for name in ("row", "done", "admit", "finish"))
        step = column(run.fleet.groups, "step")[run.fleet.group[worker]]
        return Active(
            request_id=row,
            age=(done + step - admit) * self.made,
            prompt_tokens=self.prompts[row],
            prompt_key=self.keys[row],
            max_tokens=self.caps[row],
            true_left=(finish + 1 - step) * self.made if is_oracle(self.gate.predictor) else NOTHING,
        )

    def _learn(self, run: Any) -> None:
        """Let the predictor learn from the completions in the record buffer that it has not seen."""
        end = int(run.now.request_rows)
        if end == self.seen:
            return
        row = run.records.ended[self.seen : end]
        place = row if run.fixed.keep else np.arange(self.seen, end)
        row = row[np.lexsort((row, column(run.records.done, "finished_s")[place]))]
        self.gate.predictor.learn(Finished(row, self.prompts[row], self.lengths[row], self.keys[row]))
        self.seen = end


def _fault(run: model.Run | ShortRun, status: int, name: str) -> EvenstepError:
    """The error to raise at `STUCK` or `BROKEN`: a PolicyError, or an InputError if the trace or the fleet is to blame."""
    now, fixed = run.now, run.fixed
    if status == model.STUCK:
        if now.waiting == 0:
            found = f"never ended for {counted(fixed.requests - now.completed, 'request')}"
            return InputError("trace", "after", found, "requests that end", "Look for requests that wait for each other.")
        if not np.any(column(run.fleet.workers, "up")):
            found, hint = f"every worker lost, requests waiting: {now.waiting}", "Write STEP:WORKER:back for one."
            return InputError("cluster", "outages", found, "a worker that stays or comes back", hint)
        load = run.pool.load[now.first : now.first + now.waiting]
        least = now.first + int(load.argmin())
        if run.pool.load[least] > fixed.kv_tokens:
            request = f"request {run.pool.id[least]} holds since it went back to the pool"
            expected, hint = f"{run.pool.load[least]:g} or more, which {request}", "No worker can take it again."
            return InputError("cluster", "kv_tokens", fixed.kv_tokens, expected, hint)
        return PolicyError(
            f"policy {name} holds {now.waiting} waiting requests while nothing runs and nothing more arrives;"
            f" expected it to admit at least one"
        )
    g = int(now.error_worker)
    broken = {
        model.UNKNOWN_WORKER: f"unknown worker {g}; expected -1 (hold) or 0..{fixed.workers - 1}",
        model.OVER_SLOTS: f"over capacity: worker {g} is sent more requests than it has free slots",
        model.OVER_KV: f"over capacity: worker {g} is sent more KV tokens than it has free",
    }
    return PolicyError(f"policy {name} broke its contract at decision {now.decisions}: {broken[int(now.error_kind)]}")


def _finished(state: State, gathered: _Gathered, trace: Trace, counted: dict[str, int]) -> Run:
    """The run's record, from the state in which the loop ended and the gathered tables; `counted` are further counters."""
    run, now = state.run, state.run.now
    options, conditions, now_s = gathered.options, gathered.conditions, float(now.now_s)
    totals = records.Totals(
        requests=int(now.completed),
        makespan_s=now_s,
        load_steps=float(now.load_steps),
        overloaded_steps=int(now.overloaded),
        **{name: int(getattr(now, name)) for name in ("output_tokens", "steps", "decisions", "active_steps", "restarts")},
        counted=counted,
    )
    decided = records.concatenate(records.DecisionTable, gathered.decided) if options.decisions else None
    sampled = _samples(run) if options.samples else None
    if not options.records:
        summary, digest = gathered.tally.summary(totals), gathered.hash.finish(now_s)
        return Run(conditions, totals, lambda: digest, lambda: summary, None, None, sampled, decided, trace)
    steps = records.concatenate(StepTable, gathered.steps)
    if isinstance(run, ShortRun):
        tables = partial(short_loop.kept_tables, run.requests, state.request_class, run.done, steps)
        requests, hashed = (lambda: next(tables(len(trace)))), lambda: short_loop.digest(tables(), now_s)
    else:
        requests = done_rows(run, state.request_class, len(trace))
        tables, hashed = partial(iter, [requests]), partial(digest_of, requests, now_s)

    def measured() -> dict[str, Any]:
        tally = gathered.new_tally()  # a copy of the run may be measured again
        tally.add_steps(steps)
        for table in tables():
            tally.add_requests(table)
        return tally.summary(totals)

    return Run(conditions, totals, hashed, measured, requests, steps, sampled, decided, trace)


def _samples(run: model.Run | ShortRun) -> records.WorkerTable:
    """The samples as a table of copies."""
    count, samples = int(run.now.samples), run.samples
    rows = cut(samples.rows, 0, count)
    return records.WorkerTable(
        load=samples.load[:count].copy(),
        running=samples.running[:count].copy(),
        stride=int(run.now.stride),
        longest=samples.longest[:count].copy() if run.fixed.law_kind == model.LINES_OF_LONGEST else None,
        **{name: column(rows, name).copy() for name in ("step", "group", "start_s", "duration_s")},
    )
