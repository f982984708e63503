"""The compiled simulator's state for one run: made before the first event, and given more room when a buffer is full."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_type_hints

import numpy as np

from evenstep import compiled
from evenstep.compiled import Ints, Rows, cut, fill, one, rows, widened
from evenstep.cost.power import Power
from evenstep.cost.view import PiecewiseLinear, StepTime
from evenstep.measure.metrics import Slo
from evenstep.request import F8, I8, Trace, offsets_of
from evenstep.routing import view as seen
from evenstep.routing.view import HOLD, horizon_of, memory_size_of
from evenstep.sim.cluster import model
from evenstep.sim.cluster.drift import Drift, cumulated, units_per_token
from evenstep.sim.cluster.model import Fixed, Run, ShortRun
from evenstep.sim.cluster.roots import root_table
from evenstep.sim.cluster.short_state import fits, is_linear
from evenstep.workload.replicate import units_of

ANY_DEPTH = 1 << 40  # queue depth "any number"
# Rows of a record buffer, with records kept or not; a visit of the host costs as much as a thousand steps.
KEPT_ROWS, PASSING_ROWS = 1 << 16, 1 << 14
#: Most rows of the first table of steps. A run that fits one table copies nothing.
MOST_STEP_ROWS = 1 << 21
#: Most tokens of a worker's step with an entry of its own in `Law.token_power`: full power for six minutes, by default.
MOST_POWERS = 1 << 20
_STEP_KINDS = get_type_hints(model.StepRows, include_extras=True).values()
_ARRIVALS = {"saturated": model.SATURATED, "timed": model.TIMED, "closed": model.USERS}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run besides its trace, policy, cluster and step time; they are those of `simulation.simulate`.

    `samples` is its `workers`: most rows of the table of samples. `prediction` is `NO_PREDICTION` .. `EXPECTED` of `model`,
    and `refresh_every` the produced tokens after which a prediction is old.
    """

    seed: int = 0
    records: bool = True
    decisions: bool = False
    samples: int = 0
    power: Power = field(default_factory=Power)
    slo: Slo | None = None
    prediction: int = model.NO_PREDICTION
    refresh_every: int = 16


@dataclass(slots=True, eq=False)
class State:
    """A run's state: what the loop reads and writes (`run`), the policy, and the trace's classes."""

    run: Run | ShortRun
    policy: object  # for its working space
    request_class: I8 | None

    def add_steps(self, count: int) -> None:
        """Give the loop a new, empty table of `count` steps: `run` is replaced. Tables made from the old one stay valid."""
        run = self.run
        run.now.step_rows = 0
        if isinstance(run, ShortRun):
            self.run = run._replace(steps=_steps(count))
        else:
            self.run = run._replace(records=run.records._replace(steps=_steps(count)))

    def grow(self) -> None:
        """Double the pool and its working space, in the long loop also heap, carry list and queues. `run` is replaced."""
        run = self.run
        room, pool = run.pool.id.size, _pool(2 * run.pool.id.size)
        pool.waiting_i[:, :room], pool.waiting_f[:, :room] = run.pool.waiting_i, run.pool.waiting_f
        pool.worker[:room] = run.pool.worker
        handed = _handed(self.policy, run.fixed, 2 * room, run.policy)
        if isinstance(run, ShortRun):
            self.run = run._replace(pool=pool, policy=handed)
            return
        tables: list[Any] = [run.coming, run.carried, run.queues]
        coming, carried, queues = (widened(table, 2 * len(table)) for table in tables)
        _chain(queues, len(run.queues), run.now.queue_free)
        run.now.queue_free = len(run.queues)
        self.run = run._replace(pool=pool, policy=handed, coming=coming, carried=carried, queues=queues)


def prepared(trace: Trace, policy: object, cluster: Any, step_time: StepTime, options: Options) -> State:
    """The state of a run before its first event, from input that `check_input` has checked."""
    fixed = _fixed(trace, policy, cluster, step_time, options)
    pool = _pool(max(256, 4 * min(cluster.pool, len(trace))) if fixed.arrivals == model.SATURATED else 1024)
    fleet = _fleet(fixed, cluster, step_time)
    now = one(model.Now)
    now.phase = model.COMPLETE  # nothing to complete, but outages at step 0 fall due
    now.stride, now.outages_left = int(options.samples > 0), len(cluster.outages)
    now.free_total = int(fleet.free_slots.sum())
    parts = {
        "fixed": fixed,
        "now": now,
        "fleet": fleet,
        "pool": pool,
        "policy": _handed(policy, fixed, pool.id.size, None),
        "requests": _requests(trace, cluster, fixed),
        "law": _law(trace, cluster, step_time, options.power, fixed),
        "ahead": _ahead(fixed, cluster.drift),
        "samples": _samples(fixed, options.samples),
    }
    is_short = not options.decisions and fits(cluster, step_time.table(), fixed.horizon)
    run = _short_run(trace, cluster, parts) if is_short else _long_run(trace, cluster, parts)
    return State(run, policy, trace.request_class)


def _short_run(trace: Trace, cluster: Any, parts: dict[str, Any]) -> ShortRun:
    """The short loop's state from `parts`, the fields that both loops have."""
    fixed: Fixed = parts["fixed"]
    places, room = fixed.workers * fixed.slots_max, KEPT_ROWS
    if not fixed.keep:  # the requests of one decision must find room
        room = max(PASSING_ROWS, sum(cluster.slots_of) + 8)
    slots = rows(model.ShortSlot, places)
    fill(slots, link=np.arange(1, places + 1))  # all are spare, each followed by the next
    return ShortRun(
        slots=slots,
        calendar=np.full(fixed.ring_mask + 1, model.NO_SLOT),
        done=rows(model.Admitted, len(trace) if fixed.keep else room),
        ended=np.zeros(room, np.int64),
        steps=_steps(_step_room(trace, cluster) if fixed.keep else room),
        **parts,
    )


def _long_run(trace: Trace, cluster: Any, parts: dict[str, Any]) -> Run:
    """The long loop's state from `parts`, the fields that both loops have."""
    fixed: Fixed = parts["fixed"]
    room = KEPT_ROWS if fixed.keep else PASSING_ROWS
    sessions = _sessions(trace) if fixed.arrivals == model.SESSIONS else _NO_SESSIONS
    queues = rows(model.Node, max(64, fixed.workers * fixed.slots_max))
    _chain(queues, 0, -1)
    is_long = fixed.keep and fixed.prediction <= model.ORACLE
    users = min(cluster.users or sum(cluster.slots_of), len(trace))
    records = model.Records(
        rows(model.Completed, len(trace) if fixed.keep else room),
        np.zeros(room, np.int64),
        _steps(_step_room(trace, cluster) if is_long else room),
        rows(model.Decided, room * fixed.record_decisions),
    )
    return Run(
        slots=_slots(fixed, cluster.slots_of),
        coming=rows(model.Coming, max(64, 2 * users)),
        carried=rows(model.Carried, 64),
        queues=queues,
        sessions=sessions,
        records=records,
        **parts,
    )


def _step_room(trace: Trace, cluster: Any) -> int:
    """Rows of the first table of steps: the steps of a run that keeps four fifths of all slots busy, within limits."""
    busy = int(trace.output_tokens.sum()) // cluster.drift.tokens_per_step // sum(cluster.slots_of)
    return min(max(busy * len(cluster.group_sizes) * 5 // 4, KEPT_ROWS), MOST_STEP_ROWS)


def _fixed(trace: Trace, policy: object, cluster: Any, step_time: StepTime, options: Options) -> Fixed:
    """The settings as the loop reads them."""
    drift: Drift = cluster.drift
    horizon, scale, law = horizon_of(policy), units_per_token(drift), step_time.table()
    fixed = one(Fixed)
    fixed.requests, fixed.workers, fixed.groups = len(trace), cluster.workers, len(cluster.group_sizes)
    fixed.slots_max, fixed.horizon, fixed.seed = max(cluster.slots_of), horizon, options.seed
    fixed.arrivals = _ARRIVALS[cluster.arrivals]
    if fixed.arrivals == model.USERS and cluster.think_s is None:
        fixed.arrivals = model.SESSIONS
    fixed.pool_target, fixed.may_hold = cluster.pool, int(cluster.may_hold)
    fixed.instant = int(cluster.dispatch == "instant")
    fixed.depth = ANY_DEPTH if cluster.queue_depth < 0 else cluster.queue_depth
    fixed.kv_limited = int(np.isfinite(cluster.kv_tokens))
    fixed.scale, fixed.unit, fixed.tokens_per_step = scale, 1.0 / scale, drift.tokens_per_step
    fixed.profile_kind = model.SEQUENCE if drift.profiles is None else model.PROFILES
    if drift.is_linear:
        fixed.profile_kind, fixed.delta = model.LINEAR, round(drift.growth * scale)
    fixed.ring_mask = (1 << (int(drift.steps(trace).max()) + horizon + 1).bit_length()) - 1
    fixed.window_mask = (1 << (horizon + 1).bit_length()) - 1
    fixed.prediction, fixed.refresh_every = options.prediction, options.refresh_every
    fixed.law_kind = model.ONE_LINE if is_linear(law) else model.LINES
    if law.longest_share > 0:
        fixed.law_kind, fixed.longest_share = model.LINES_OF_LONGEST, law.longest_share
    fixed.slope = _slopes(law)[0]
    fixed.prefill_base_s, fixed.prefill_per_token_s = cluster.prefill_base_s, cluster.prefill_per_token_s
    fixed.kv_tokens, fixed.kv_reserve, fixed.think_s = (cluster.kv_tokens, cluster.kv_reserve, cluster.think_s or 0.0)
    fixed.keep, fixed.record_decisions = int(options.records), int(options.decisions)
    power = options.power
    fixed.idle_w, fixed.span_w = power.idle_w, power.max_w - power.idle_w
    fixed.full_power_s = power.mfu_per_tokens_per_s / power.mfu_sat
    return fixed


def _slopes(law: PiecewiseLinear) -> F8:
    """Seconds a token of each worker on its first line."""
    return (law.seconds[:, 1] - law.seconds[:, 0]) / (law.load[1] - law.load[0])


def _fleet(fixed: Fixed, cluster: Any, step_time: StepTime) -> model.Fleet:
    """The fleet before the first event: idle, every slot free."""
    G, sizes, slots = cluster.workers, cluster.group_sizes, cluster.slots_of
    ints, floats = np.zeros((4, G), np.int64), np.zeros((4, G))
    ints[seen.GROUP] = np.repeat(np.arange(len(sizes)), sizes)
    ints[seen.FREE_SLOTS] = np.array(slots) + fixed.depth
    floats[seen.KV_FREE] = cluster.kv_tokens
    floats[seen.SECONDS_PER_TOKEN] = np.resize(_slopes(step_time.table()), G)
    workers, groups = rows(model.Worker, G), rows(model.Group, len(sizes))
    fill(workers, slots=slots, up=1, queue_head=-1, queue_tail=-1, longest_slot=-1)
    overheads = [step_time.overhead_seconds(size) for size in sizes]
    fill(groups, workers=sizes, boundary=2, first=np.cumsum([0, *sizes[:-1]]), overhead_s=overheads)
    outages = rows(model.Loss, len(cluster.outages))
    for row, outage in zip(outages, sorted(cluster.outages, key=lambda o: o.step), strict=True):
        row.step, row.worker, row.back = outage.step, outage.worker, int(outage.back)
    return model.Fleet._make([ints, floats, *ints, *floats, np.zeros(G, np.int64), workers, groups, outages])


def _slots(fixed: Fixed, slots: tuple[int, ...]) -> model.Slots:
    """All slots, free; `slots` are those of each worker."""
    B, NG, ring = fixed.slots_max, fixed.groups, fixed.ring_mask + 1
    places = rows(model.Slot, fixed.workers * B)
    fill(places, row=-1)
    free = np.zeros((fixed.workers, B), np.int64)
    for g, b in enumerate(slots):  # slot numbers of worker g, the lowest on top
        free[g, :b] = g * B + np.arange(b)[::-1]
    return model.Slots(places, free, np.full((NG, ring), -1), np.zeros((NG, ring)), np.zeros((NG, ring)))


def _ahead(fixed: Fixed, drift: Drift) -> model.Ahead:
    G, H, window = fixed.workers, fixed.horizon, fixed.window_mask + 1
    places = G * fixed.slots_max
    curve_steps = H + -(-fixed.refresh_every // fixed.tokens_per_step) + 1
    return model.Ahead(
        look=rows(model.Look, places if H > 0 else 0),
        leaving=np.zeros((G, window), np.int64),
        leaving_units=np.zeros((G, window), np.int64),
        due=rows(model.Due, places if fixed.prediction >= model.DEPARTURES else 0),
        curves=np.zeros((places if fixed.prediction == model.EXPECTED else 0, curve_steps)),
        projections=np.zeros((G, H + 1 if H > 0 else 0)),
        growth=drift.gains(H),
    )


def _pool(room: int) -> model.Pool:
    """An empty pool with room for `room` requests."""
    ints, floats = np.zeros((3, room), np.int64), np.zeros((3, room))
    floats[seen.STEPS] = np.nan
    return model.Pool._make([ints, floats, *ints, *floats, np.full(room, HOLD)])


def _handed(policy: object, fixed: Fixed, room: int, before: model.Policy | None) -> model.Policy:
    """The arguments of the policy's kernel, with working space for `room` waiting requests; the memory is `before`'s."""
    kernel = compiled.kernel_of(policy)
    parameters, ints, floats = np.zeros(0), 0, 0
    if kernel is not None:
        parameters = compiled.parameters(policy)
        ints, floats = kernel.scratch(fixed.workers, room, fixed.horizon, parameters)
    memory = np.zeros(memory_size_of(policy), np.int64) if before is None else before.memory
    return model.Policy(np.zeros((0, 0)), memory, parameters, np.zeros(ints, np.int64), np.zeros(floats))


def _requests(trace: Trace, cluster: Any, fixed: Fixed) -> model.Requests:
    timed = cluster.arrivals == "timed" and trace.arrival_s is not None
    kinds, keys = _classes_and_keys(trace)
    offsets, profile = _profile(cluster.drift, fixed)
    return model.Requests(
        prompt=np.ascontiguousarray(trace.prompt_tokens, np.int64),
        output=np.ascontiguousarray(trace.output_tokens, np.int64),
        arrival_s=np.ascontiguousarray(trace.arrival_s, np.float64) if timed else np.zeros(0),
        request_class=kinds,
        key=keys,
        offsets=offsets,
        profile=profile,
    )


def _classes_and_keys(trace: Trace) -> tuple[I8, I8]:
    """Class and key of each request; empty when the trace has neither."""
    if trace.request_class is None and trace.session is None and trace.prompt_key is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    session, key = trace.column("session"), trace.column("prompt_key")
    keys = np.where(session >= 0, session, np.where(key != 0, key, np.arange(len(trace))))
    return np.ascontiguousarray(trace.column("request_class"), np.int64), np.ascontiguousarray(keys, np.int64)


def _profile(drift: Drift, fixed: Fixed) -> tuple[I8, I8]:
    """Offsets and loads of every request, or no offsets and common gains by age, in load units; both empty if linear."""
    nothing = np.zeros(0, np.int64)
    if drift.profiles is not None:
        loads = np.round(drift.profiles.values * fixed.scale).astype(np.int64)
        return np.ascontiguousarray(drift.profiles.offsets, np.int64), loads
    if drift.is_linear:
        return nothing, nothing
    gained = cumulated(drift.sequence, fixed.ring_mask + 1)
    return nothing, np.round(gained * fixed.scale).astype(np.int64)


def _law(trace: Trace, cluster: Any, step_time: StepTime, power: Power, fixed: Fixed) -> model.Law:
    law, most = step_time.table(), fixed.tokens_per_step
    if fixed.profile_kind == model.PROFILES and trace.output_tokens.size:  # the last step makes the rest of an output
        most = max(most, int(trace.output_tokens.max()))
    counts = np.arange(min(fixed.slots_max * most, MOST_POWERS) + 1)
    return model.Law(
        knots=np.ascontiguousarray(law.load, np.float64),
        seconds=np.ascontiguousarray(law.seconds, np.float64),
        local_s=np.zeros(cluster.workers),
        made=np.zeros(cluster.workers, np.int64),
        token_power=((counts * fixed.full_power_s) ** power.gamma).astype(np.float64),
        roots=root_table(1.0 - power.gamma),
    )


def _samples(fixed: Fixed, count: int) -> model.Samples:
    asked = count if fixed.law_kind == model.LINES_OF_LONGEST else 0
    shape = count, fixed.workers
    return model.Samples(
        rows(model.Sampled, count), np.zeros(shape), np.zeros(shape, np.int64), np.zeros((asked, fixed.workers))
    )


def _steps(room: int) -> model.StepRows:
    """A table of `room` steps, not initialised."""
    return model.StepRows._make(np.empty(room, np.int64 if kind == Ints else np.float64) for kind in _STEP_KINDS)


def _chain(nodes: Rows[model.Node], start: int, end: int) -> None:
    """Link the queue nodes from `start` on into a free list that ends in `end`."""
    following = np.arange(start + 1, len(nodes) + 1)
    following[-1] = end
    fill(cut(nodes, start, len(nodes)), next=following)


_NO_SESSIONS = model.Sessions(*(np.zeros(0, np.int64) for _ in range(6)), think_s=np.zeros(0))


def _sessions(trace: Trace) -> model.Sessions:
    """Sessions in order of their first request; a request without a session is one by itself."""
    after, (session, count) = trace.column("after"), units_of(trace)
    follows, roots = np.flatnonzero(after >= 0), np.flatnonzero(after < 0)
    return model.Sessions(
        child_offsets=offsets_of(np.bincount(after[follows], minlength=len(trace))),
        children=follows[np.argsort(after[follows], kind="stable")],
        session=session,
        left=np.bincount(session, minlength=count),
        root_offsets=offsets_of(np.bincount(session[roots], minlength=count)),
        roots=roots[np.argsort(session[roots], kind="stable")],
        think_s=np.ascontiguousarray(trace.column("think_s"), np.float64),
    )
