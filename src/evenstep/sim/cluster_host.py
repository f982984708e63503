"""The host of the compiled simulator: checks the input, carries the loop over its stops, gathers the records."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from evenstep import compiled
from evenstep.cost.power import Power
from evenstep.cost.view import StepTime
from evenstep.errors import InputError, PolicyError
from evenstep.measure.digest import StreamingDigest, digest_of
from evenstep.measure.metrics import Slo
from evenstep.measure.records import (
    Conditions,
    DecisionTable,
    RequestTable,
    Run,
    StepTable,
    Totals,
    WorkerTable,
    concatenate,
    copied,
)
from evenstep.measure.tally import Tally
from evenstep.predict.oracle import Oracle
from evenstep.predict.view import (
    NOTHING,
    Active,
    Finished,
    Fits,
    Predictor,
    SurvivalCurve,
    counted_of,
    fit_now,
    is_oracle,
)
from evenstep.request import F8, I8, Trace
from evenstep.routing.view import expects_loads, horizon_of
from evenstep.sim import cluster_layout as at
from evenstep.sim import short_loop
from evenstep.sim.cluster_input import check_input
from evenstep.sim.cluster_state import State, prepared
from evenstep.sim.plain_door import PlainDoor
from evenstep.sim.prefix_caches import PrefixCaches
from evenstep.sim.prefix_door import door_of


def run(
    trace: Trace,
    policy: Any,
    cluster: Any,
    step_time: StepTime,
    predictor: Predictor | None,
    *,
    seed: int,
    records: bool,
    samples: int,
    decisions: bool,
    power: Power,
    slo: Slo | None,
    door: str,
    name: str,
) -> Run:
    """See `cluster.simulate`."""
    name = name or type(policy).__name__
    kernel = _kernel(policy, door, name)
    check_input(trace, policy, cluster, predictor, name)
    horizon = horizon_of(policy)
    prediction = _prediction(policy, predictor)
    state = prepared(
        trace, policy, cluster, step_time, prediction=prediction, seed=seed, power=power, samples=samples,
        decisions=decisions, records=records, refresh_every=int(getattr(predictor, "refresh_every", 16)),
    )  # fmt: skip
    _open_closed_loop(state, cluster)
    law = step_time.table()
    conditions = Conditions(
        workers=cluster.workers,
        slots=max(cluster.slots_of),
        slots_total=sum(cluster.slots_of),
        group_sizes=cluster.group_sizes,
        overhead_s=tuple(step_time.overhead_seconds(size) for size in cluster.group_sizes),
        seconds_per_token=_single_slope(law),
        arrivals=cluster.arrivals,
        pool=cluster.pool if cluster.arrivals == "saturated" else 0,
        seed=seed,
        policy=name,
        predictor="" if horizon == 0 else type(predictor).__name__.lower(),
        oracle=horizon > 0 and is_oracle(predictor),
        prefill=cluster.prefill_base_s > 0 or cluster.prefill_per_token_s > 0,
    )
    gathered = _Gathered(conditions, records, decisions, slo, power)
    asked = _Asked(predictor, horizon, trace, prediction) if prediction >= at.DEPARTURES else None
    caches = PrefixCaches(trace, cluster) if cluster.prefix_cache_blocks else None
    plain = door_of(policy, kernel, state, seed, name, caches)
    _carry(state, policy, kernel, plain, gathered, asked, name)
    counted = asked.counted() if asked is not None else {}
    counted |= caches.counted() if caches is not None else {}
    held = int(state.ints.window(at.SCALARS_I)[at.HELD])
    counted |= {"held_decisions": held} if held else {}
    return _finished(state, gathered, conditions, trace, samples, records, counted)


def _prediction(policy: Any, predictor: Any) -> int:
    """What the loop keeps of the coming steps, and asks for."""
    if horizon_of(policy) == 0:
        return at.NO_PREDICTION
    if type(predictor) is Oracle:
        return at.ORACLE
    return at.EXPECTED if expects_loads(policy) and isinstance(predictor, SurvivalCurve) else at.DEPARTURES


def _carry(
    state: State, policy: Any, kernel: Any, plain: PlainDoor | None, gathered: _Gathered, asked: _Asked | None, name: str
) -> None:  # fmt: skip
    """Carry the loop from stop to stop until the run is done."""
    if state.is_short:
        from evenstep.sim import short_loop_kernel as loop
    else:
        from evenstep.sim import cluster_kernel as loop

    arguments = state.arguments
    while True:
        status = loop.advance(kernel.route_into, *arguments) if plain is None else plain.advance(arguments)
        if status == at.DONE:
            break
        if status == at.FLUSH:
            if asked is not None:
                asked.see(state)
            gathered.take(state, more=True)
        elif status == at.GROW:
            state.grow(policy)
            arguments = state.arguments
            if plain is not None:
                plain.look_again()
        elif status == at.PREDICT and asked is not None:
            asked.answer(state)
        else:
            raise PolicyError(_complaint(state, status, name))
    gathered.take(state, more=False)


def loop_of(policy: Any, cluster: Any, step_time: StepTime) -> str:
    """The module of the compiled loop that a run takes which writes no decisions down."""
    short = short_loop.fits(cluster, step_time.table(), horizon_of(policy))
    plain = compiled.kernel_of(policy) is None or cluster.prefix_cache_blocks > 0
    names = ("cluster_kernel", "plain_door_kernel", "short_loop_kernel", "short_loop_plain_kernel")
    return f"evenstep.sim.{names[2 * short + plain]}"


def _kernel(policy: Any, door: str, name: str) -> Any:
    kernel = compiled.kernel_of(policy) if door != "plain" else None
    if door == "compiled" and kernel is None:
        raise InputError(name, "door", door, "auto or plain", "The policy has no kernel beside its file.")
    return kernel


def _single_slope(law: Any) -> float:
    return float(law.seconds[0, 1] / law.load[1]) if short_loop.is_linear(law) else math.nan


def _open_closed_loop(state: State, cluster: Any) -> None:
    """Users issue their first request, or the first sessions start, at time 0."""
    if cluster.arrivals != "closed":
        return
    from evenstep.sim import arrivals_kernel, pool_kernel

    users = cluster.users or sum(cluster.slots_of)
    while True:
        sc, sf = state.ints.window(at.SCALARS_I), state.floats.window(at.SCALARS_F)
        heap_f, heap_i = state.floats.window(at.HEAP_F), state.ints.window(at.HEAP_I)
        if sc[at.ARRIVALS] == at.USERS:
            for user in range(min(users, int(sc[at.REQUESTS]))):
                pool_kernel.heap_push(sc, heap_f, heap_i, 0.0, user)
            sc[at.HEAP_SEQUENCE] = users
            return
        sessions = int(state.links[-1])
        while sc[at.SESSIONS_NEXT] < min(users, sessions):
            base = 3 * int(sc[at.REQUESTS]) + 1 + sessions + int(sc[at.SESSIONS_NEXT])
            if sc[at.HEAP_SIZE] + state.links[base + 1] - state.links[base] >= heap_i.size:
                break
            arrivals_kernel.start_sessions(sc, sf, heap_f, heap_i, state.links, state.think, sessions, 0.0)
        if sc[at.SESSIONS_NEXT] >= min(users, sessions):
            return
        state.grow(None)


class _Gathered:
    """Takes full record buffers: keeps them as tables, or feeds the metrics and the digest and lets them go."""

    def __init__(
        self, conditions: Conditions, records: bool, decisions: bool, slo: Slo | None, power: Power
    ) -> None:
        self.new_tally = partial(Tally, conditions, exact=records, slo=slo, power=power)
        self.tally = self.new_tally()
        self.hash = StreamingDigest()
        self.records, self.decisions = records, decisions
        self.steps: list[StepTable] = []
        self.decided: list[DecisionTable] = []
        self.passing = short_loop.Passing()

    def take(self, state: State, more: bool) -> None:
        """Empty the record buffers; `more` says that the loop will fill them again."""
        sc = state.ints.window(at.SCALARS_I)
        rows = int(sc[at.STEP_ROWS])
        steps = short_loop.step_rows(state, rows) if state.is_short else _step_rows(state, rows)
        if self.records:  # measured and hashed when somebody asks
            self.steps.append(copied(steps) if more else steps)
        else:
            requests = (
                self.passing.completed(state, steps)
                if state.is_short
                else done_rows(state, int(sc[at.REQUEST_ROWS]))
            )
            self.tally.add_steps(steps)
            self.tally.add_requests(requests)
            self.hash.add(
                requests.request_id, requests.worker, requests.admitted_step, requests.finished_step
            )
        if self.decisions:
            self.decided.append(_decision_rows(state, int(sc[at.DECISION_ROWS])))
        sc[[at.REQUEST_ROWS, at.STEP_ROWS, at.DECISION_ROWS]] = 0


def done_rows(state: State, rows: int) -> RequestTable:
    """The first `rows` completed requests of the loop's record arrays; windows, not copies."""
    i, f = state.done_i[:rows].T, state.done_f[:rows].T
    if state.ints.window(at.SCALARS_I)[at.KEEP]:  # every request stands at its own row
        row, prompt, output = np.arange(rows, dtype=np.int64), state.prompt, state.output
        kind = state.request_class
    else:
        row = state.ints.window(at.ENDED)[:rows].copy()
        prompt, output = state.prompt[row], state.output[row]
        kind = None if state.request_class is None else state.request_class[row]
    return RequestTable(
        request_id=row,
        worker=i[at.D_WORKER],
        prompt_tokens=prompt,
        output_tokens=output,
        visible_s=f[at.D_VISIBLE],
        admitted_s=f[at.D_ADMITTED],
        first_token_s=f[at.D_FIRST_TOKEN],
        finished_s=f[at.D_FINISHED],
        admitted_step=i[at.D_ADMITTED_STEP],
        finished_step=i[at.D_FINISHED_STEP],
        restarts=i[at.D_RESTARTS],
        request_class=kind,
    )


def _step_rows(state: State, rows: int) -> StepTable:
    """The first `rows` steps of the loop's record buffer; windows, not copies."""
    i, f = state.ints.window(at.STEP_OUT_I)[:, :rows], state.floats.window(at.STEP_OUT_F)[:, :rows]
    return StepTable(
        group=i[0], step=i[1], start_s=f[0], duration_s=f[1], envelope=f[2], load_sum=f[3], load_min=f[4],
        local_max_s=f[5], local_sum_s=f[6], running=i[2], running_all=i[3], admitted=i[4], tokens=i[5],
        energy_busy_idle_j=f[7], energy_step_average_j=f[8],
    )  # fmt: skip


def _decision_rows(state: State, rows: int) -> DecisionTable:
    i = state.ints.window(at.DECISION_OUT_I)[:rows].T.copy()
    f = state.floats.window(at.DECISION_OUT_F)[:rows].T.copy()
    return DecisionTable(decision=i[0], now_s=f[0], waiting=i[1], free_slots=i[2], admitted=i[3], bound=f[1])


class _Asked:
    """Asks a predictor about the running requests that are due, and applies the gate (BalanceRoute App. C)."""

    def __init__(self, predictor: Any, horizon: int, trace: Trace, prediction: int) -> None:
        self.predictor, self.horizon, self.trace = predictor, horizon, trace
        self.expects = prediction == at.EXPECTED
        self.fits = isinstance(predictor, Fits)
        self.gate = float(getattr(predictor, "gate", 0.5))
        self.literal = getattr(predictor, "refresh", "anchored") == "literal"
        self.seen = 0  # completions in the record buffer the predictor has learned from
        self.predictions, self.accepted = 0, 0

    def see(self, state: State) -> None:
        """Let the predictor learn from the completions since the last call; the buffer is about to be emptied."""
        self._learn(state)
        self.seen = 0

    def counted(self) -> dict[str, int]:
        """What was asked, what passed the gate, and what the predictor counts itself."""
        own = {f"predictor_{name}": count for name, count in counted_of(self.predictor).items()}
        return {"predictions": self.predictions, "predictions_accepted": self.accepted, **own}

    def answer(self, state: State) -> None:
        self._learn(state)
        if self.fits:
            fit_now(self.predictor)
        sc = state.ints.window(at.SCALARS_I)
        count = int(sc[at.DUE_COUNT])
        due = state.ints.window(at.DUE)[:count]
        slots = state.ints.window(at.SLOT_INTS)[due]
        worker = due // sc[at.SLOTS_MAX]
        order = np.lexsort((slots[:, at.ROW], worker))
        due[:] = due[order]
        active = self._active(state, slots[order], worker[order])
        if self.expects:
            self._keep_curves(state, due, active)
            return
        prediction = self.predictor.predict(active, self.horizon)
        steps, leaves = prediction.steps_left, prediction.leaves
        if steps.shape != (count,) or leaves.shape != (count,) or not np.isfinite(steps).all():
            raise PolicyError(
                f"predictor {type(self.predictor).__name__} answered {steps.shape} steps and {leaves.shape} chances"
                f" for {count} requests; expected finite values, one a request"
            )
        passes = leaves >= self.gate
        self.predictions += count
        self.accepted += int(np.count_nonzero(passes))
        expected = np.where(passes, np.clip(steps, 1.0, self.horizon), self.horizon)
        stays = (expected >= self.horizon) & (not self.literal)
        state.floats.window(at.DUE_F)[:count] = np.where(stays, -1.0, expected)

    def _keep_curves(self, state: State, due: I8, active: Active) -> None:
        """Put the chances of being still there beside the slots, as far ahead as they are needed before the next refresh."""
        kept = state.floats.window(at.CURVES)
        curve = self.predictor.curve(active, kept.shape[1] - 1)
        if (
            curve.shape != (due.size, kept.shape[1])
            or not (curve[:, 0] == 1.0).all()
            or not np.isfinite(curve).all()
        ):
            raise PolicyError(
                f"predictor {type(self.predictor).__name__} answered a curve of shape {curve.shape} for {due.size} requests;"
                f" expected ({due.size}, {kept.shape[1]}), finite, with 1 in column 0"
            )
        kept[due] = curve
        self.predictions += due.size
        self.accepted += due.size  # a curve passes no gate

    def _active(self, state: State, slots: I8, worker: I8) -> Active:
        trace, row = self.trace, slots[:, at.ROW]
        sc = state.ints.window(at.SCALARS_I)
        group = state.ints.window(at.WORKERS_I)[0][worker]
        step = state.ints.window(at.GROUP_INTS)[at.STEP][group]
        produced = (slots[:, at.DONE0] + step - slots[:, at.ADMIT]) * sc[at.TOKENS_PER_STEP]
        left = slots[:, at.FINISH] + 1 - step if is_oracle(self.predictor) else NOTHING
        key = NOTHING if trace.prompt_key is None else trace.prompt_key[row]
        cap = NOTHING if trace.max_tokens is None else trace.max_tokens[row]
        return Active(
            request_id=row.copy(),
            age=produced,
            prompt_tokens=trace.prompt_tokens[row],
            prompt_key=key if key.size else np.zeros_like(row),
            max_tokens=cap if cap.size else np.zeros_like(row),
            true_left=left,
        )

    def _learn(self, state: State) -> None:
        end = int(state.ints.window(at.SCALARS_I)[at.REQUEST_ROWS])
        if end == self.seen:
            return
        row = state.ints.window(at.ENDED)[self.seen : end]
        place = row if state.ints.window(at.SCALARS_I)[at.KEEP] else np.arange(self.seen, end)
        row = row[np.lexsort((row, state.done_f[place, at.D_FINISHED]))]
        key = np.zeros_like(row) if self.trace.prompt_key is None else self.trace.prompt_key[row]
        self.predictor.learn(Finished(row, state.prompt[row], state.output[row], key))
        self.seen = end


def _complaint(state: State, status: int, name: str) -> str:
    sc = state.ints.window(at.SCALARS_I)
    if status == at.STUCK:
        if sc[at.WAITING] == 0:
            raise InputError(
                "trace", "after", f"never ended for {sc[at.REQUESTS] - sc[at.COMPLETED]} requests",
                "requests that end", "Look for requests that wait for each other.",
            )  # fmt: skip
        return (
            f"policy {name} holds {sc[at.WAITING]} waiting requests while nothing runs and nothing more arrives;"
            f" expected it to admit at least one"
        )
    g = int(sc[at.ERROR_WORKER])
    broken = {
        at.UNKNOWN_WORKER: f"unknown worker {g}; expected -1 (hold) or 0..{sc[at.WORKERS] - 1}",
        at.OVER_SLOTS: f"over capacity: worker {g} is sent more requests than it has free slots",
        at.OVER_KV: f"over capacity: worker {g} is sent more KV tokens than it has free",
    }
    return (
        f"policy {name} broke its contract at decision {sc[at.DECISIONS]}: {broken[int(sc[at.ERROR_KIND])]}"
    )


def _finished(
    state: State, gathered: _Gathered, conditions: Conditions, trace: Trace, samples: int, records: bool,
    counted: dict[str, int],
) -> Run:  # fmt: skip
    sc, sf = state.ints.window(at.SCALARS_I), state.floats.window(at.SCALARS_F)
    totals = Totals(
        requests=int(sc[at.COMPLETED]),
        output_tokens=int(sc[at.OUTPUT_TOKENS]),
        steps=int(sc[at.STEPS]),
        decisions=int(sc[at.DECISIONS]),
        makespan_s=float(sf[at.NOW]),
        load_steps=float(sc[at.LOAD_STEPS] * sf[at.UNIT]),
        active_steps=int(sc[at.ACTIVE_STEPS]),
        restarts=int(sc[at.RESTARTS]),
        overloaded_steps=int(sc[at.OVERLOADED]),
        counted=counted,
    )
    now = float(sf[at.NOW])
    decided = concatenate(DecisionTable, gathered.decided) if gathered.decisions else None
    sampled = _samples(state) if samples else None
    if not records:
        summary, digest = gathered.tally.summary(totals), gathered.hash.finish(now)
        return Run(conditions, totals, lambda: digest, lambda: summary, None, None, sampled, decided, trace)
    steps = concatenate(StepTable, gathered.steps)
    if state.is_short:
        kept = short_loop.Kept(state, steps)
        requests, blocks, hashed = kept.table, kept.blocks, partial(kept.digest, now)
    else:
        requests = done_rows(state, len(trace))
        blocks, hashed = partial(iter, [requests]), partial(digest_of, requests, now)

    def measured() -> dict[str, Any]:
        tally = gathered.new_tally()  # a copy of the run may be measured again
        tally.add_steps(steps)
        for block in blocks():
            tally.add_requests(block)
        return tally.summary(totals)

    return Run(conditions, totals, hashed, measured, requests, steps, sampled, decided, trace)


def _samples(state: State) -> WorkerTable:
    sc = state.ints.window(at.SCALARS_I)
    rows = int(sc[at.SAMPLES])
    times: F8 = state.floats.window(at.SAMPLE_F)[:rows]
    steps = state.ints.window(at.SAMPLE_I)[:rows]
    return WorkerTable(
        step=steps[:, 0].copy(),
        group=steps[:, 1].copy(),
        start_s=times[:, 0].copy(),
        duration_s=times[:, 1].copy(),
        load=state.floats.window(at.SAMPLE_LOAD)[:rows].copy(),
        running=state.ints.window(at.SAMPLE_RUNNING)[:rows].copy(),
        stride=int(sc[at.STRIDE]),
        longest=state.floats.window(at.SAMPLE_LONGEST)[:rows].copy()
        if sc[at.LAW_KIND] == at.LINES_OF_LONGEST
        else None,
    )
