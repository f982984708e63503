"""The compiled simulator's state for one run: laid out, filled in, grown when a buffer is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstep import compiled
from evenstep.cost.power import Power
from evenstep.cost.view import PiecewiseLinear, StepTime
from evenstep.request import F8, I8, Trace
from evenstep.routing.view import (
    FREE_SLOTS,
    GROUP,
    KV_FREE,
    SECONDS_PER_TOKEN,
    STEPS,
    horizon_of,
    memory_size_of,
)
from evenstep.sim import cluster_layout as at
from evenstep.sim.cluster_layout import Buffer
from evenstep.sim.drift import Drift, cumulated, units_per_token
from evenstep.sim.short_loop import fits, is_linear

MOST_PARAMETERS = 1088  # words of a policy's fields
ANY_DEPTH = 1 << 40  # queue depth "any number"
# Rows of a record buffer between two visits of the host; a visit costs as much as a thousand steps.
KEPT_ROWS, PASSING_ROWS = 1 << 16, 1 << 14
INT_RECORDS = (at.ENDED, at.STEP_OUT_I, at.DECISION_OUT_I, at.SAMPLE_I, at.SAMPLE_RUNNING)
FLOAT_RECORDS = (at.STEP_OUT_F, at.DECISION_OUT_F, at.SAMPLE_F, at.SAMPLE_LOAD, at.SAMPLE_LONGEST)
# Sections the short loop does without.
_BY_SLOT_I = (at.FREE_STACK, at.HEAP_I, at.CARRY_I, at.QUEUE_I, at.LEAVES, at.LOOK)
_BY_SLOT_F = (at.SLOT_FLOATS, at.HEAP_F, at.CARRY_F, at.QUEUE_F, at.STEP_TIMES)
_NO_COLUMNS = np.zeros((0, 0), np.int64)
_NO_INTS = np.zeros(0, np.int64)
_NO_FLOATS = np.zeros(0, np.float64)


@dataclass(slots=True, eq=False)
class State:
    """Everything the loop reads and writes; `arguments` is what follows the two offset lists in its call."""

    ints: Buffer
    floats: Buffer
    prompt: I8
    output: I8
    arrival: F8
    columns: NDArray[np.int64]
    request_class: I8 | None
    links: I8
    think: F8
    profile: I8
    law: F8
    cached: F8
    done_i: NDArray[np.int64]
    done_f: F8

    @property
    def is_short(self) -> bool:
        """Whether the short loop runs it (`short_loop_kernel`)."""
        return bool(self.ints.data[at.SHORT])

    @property
    def arguments(self) -> tuple[Any, ...]:
        if self.is_short:
            return (
                self.ints.data, self.floats.data, self.prompt, self.output, self.arrival, self.columns,
                self.done_i, self.done_f,
            )  # fmt: skip
        return (
            self.ints.offsets, self.floats.offsets, self.ints.data, self.floats.data, self.prompt, self.output,
            self.arrival, self.columns, self.links, self.think, self.profile, self.law, self.cached,
            self.done_i, self.done_f,
        )  # fmt: skip

    def grow(self, policy: object) -> None:
        """Double the pool, the heap, the carry list and the queues."""
        scalars = self.ints.window(at.SCALARS_I)
        rooms = {
            name: int(scalars[name]) * 2
            for name in (at.POOL_ROOM, at.HEAP_ROOM, at.CARRY_ROOM, at.QUEUE_ROOM)
        }
        ints, floats = _shapes(scalars, rooms, _scratch(policy, scalars, rooms[at.POOL_ROOM]))
        old_nodes = int(scalars[at.QUEUE_ROOM])
        self.ints = _moved(self.ints, ints, INT_RECORDS)
        self.floats = _moved(self.floats, floats, FLOAT_RECORDS)
        scalars = self.ints.window(at.SCALARS_I)
        self.ints.window(at.WORKER_OUT)[int(scalars[at.POOL_ROOM]) :] = -1
        for name, room in rooms.items():
            scalars[name] = room
        if self.is_short:
            self.open_short()
            return
        _chain(self.ints.window(at.QUEUE_I), old_nodes, int(scalars[at.QUEUE_FREE]))
        scalars[at.QUEUE_FREE] = old_nodes

    def open_short(self) -> None:
        """Tell the short loop where its sections are; nobody's steps are known, and no request has a class of its own."""
        self.ints.data[at.OFFSETS_I : at.OFFSETS_I + self.ints.offsets.size] = self.ints.offsets
        self.ints.data[at.OFFSETS_F : at.OFFSETS_F + self.floats.offsets.size] = self.floats.offsets
        self.floats.window(at.WAITING_F)[STEPS] = np.nan


def _moved(old: Buffer, shapes: dict[int, tuple[int, ...]], unset: tuple[int, ...]) -> Buffer:
    new = Buffer(old.data.dtype, shapes, unset)
    for section, shape in old.shapes.items():
        new.window(section)[tuple(slice(0, n) for n in shape)] = old.window(section)
    return new


def _chain(nodes: I8, start: int, end: int) -> None:
    """Link queue nodes start, start+1, ... into a free list that ends in `end`."""
    nodes[start:, at.Q_NEXT] = np.arange(start + 1, nodes.shape[0] + 1)
    nodes[-1, at.Q_NEXT] = end


def _scratch(policy: object, scalars: I8, pool_room: int) -> tuple[int, int]:
    kernel = compiled.kernel_of(policy)
    if kernel is None or not hasattr(kernel, "scratch"):
        return 0, 0
    return kernel.scratch(
        int(scalars[at.WORKERS]), pool_room, int(scalars[at.HORIZON]), compiled.parameters(policy)
    )


def _shapes(
    sc: I8, rooms: dict[int, int], scratch: tuple[int, int]
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Shapes of all sections of the two buffers."""
    G, NG, B, H = int(sc[at.WORKERS]), int(sc[at.GROUPS]), int(sc[at.SLOTS_MAX]), int(sc[at.HORIZON])
    S, ring, window = G * B, int(sc[at.RING_MASK]) + 1, int(sc[at.WINDOW_MASK]) + 1
    cap, heap, carry = rooms[at.POOL_ROOM], rooms[at.HEAP_ROOM], rooms[at.CARRY_ROOM]
    queue, samples = rooms[at.QUEUE_ROOM], int(sc[at.SAMPLE_ROOM])
    rows, decisions = int(sc[at.RECORD_ROOM]), int(sc[at.DECISION_ROOM])
    due = S if sc[at.PREDICTION] >= at.DEPARTURES else 0
    ints: dict[int, tuple[int, ...]] = {
        at.SCALARS_I: (at.SCALARS,),
        at.WORKERS_I: (4, G),
        at.LOADS: (G,),
        at.WORKER_INTS: (at.WORKER_ROWS, G),
        at.GROUP_INTS: (9, NG),
        at.SLOT_INTS: (S, 8),
        at.FREE_STACK: (G, B),
        at.BUCKETS: (NG, ring),
        at.WAITING_I: (3, cap),
        at.WORKER_OUT: (cap,),
        at.HEAP_I: (heap,),
        at.CARRY_I: (carry, 3),
        at.QUEUE_I: (queue, 3),
        at.OUTAGES: (int(sc[at.OUTAGE_ROWS]), 4),
        at.LEAVES: (2, G, window),
        at.MEMORY: (int(sc[at.MEMORY_WORDS]),),
        at.SCRATCH_I: (scratch[0],),
        at.DUE: (due,),
        at.ENDED: (rows,),
        at.STEP_OUT_I: (at.STEP_INTS, rows),
        at.DECISION_OUT_I: (decisions, 4),
        at.SAMPLE_I: (samples, 2),
        at.SAMPLE_RUNNING: (samples, G),
        at.LOOK: (S if H > 0 else 0, 4),
    }
    floats: dict[int, tuple[int, ...]] = {
        at.SCALARS_F: (32,),
        at.WORKERS_F: (4, G),
        at.GROUP_FLOATS: (3, NG),
        at.SLOT_FLOATS: (S, 4),
        at.WAITING_F: (3, cap),
        at.HEAP_F: (heap,),
        at.CARRY_F: (carry, 2),
        at.QUEUE_F: (queue,),
        at.PROJECTIONS: (G, int(sc[at.PROJECTED])),
        at.GROWTH: (H + 1,),
        at.PARAMETERS: (MOST_PARAMETERS,),
        at.SCRATCH_F: (scratch[1],),
        at.DUE_F: (due,),
        at.COUNT_POWER: (B + 1,),
        at.ROOT_TABLE: (int(sc[at.ROOT_SIZE]),),
        at.STEP_OUT_F: (at.STEP_FLOATS, rows),
        at.DECISION_OUT_F: (decisions, 2),
        at.SAMPLE_F: (samples, 2),
        at.SAMPLE_LOAD: (samples, G),
        at.LOCAL_S: (G,),
        at.STEP_TIMES: (2, NG, ring),
        at.SAMPLE_LONGEST: (samples if sc[at.LAW_KIND] == at.LINES_OF_LONGEST else 0, G),
        at.CURVES: (S if sc[at.PREDICTION] == at.EXPECTED else 0, int(sc[at.CURVE_STEPS])),
    }
    if sc[at.SHORT]:
        ints |= {section: (0,) * len(ints[section]) for section in _BY_SLOT_I}
        floats |= {section: (0,) * len(floats[section]) for section in _BY_SLOT_F}
        ints |= {at.SLOT_INTS: (S, 2), at.BUCKETS: (1, ring), at.STEP_OUT_I: (at.SHORT_INTS, rows)}
        floats[at.STEP_OUT_F] = at.SHORT_FLOATS, rows
    return ints, floats


def _ring(steps: int) -> int:
    """Smallest power of two above `steps`."""
    return 1 << int(steps).bit_length()


def prepared(
    trace: Trace,
    policy: object,
    cluster: Any,
    step_time: StepTime,
    *,
    prediction: int,
    refresh_every: int,
    seed: int,
    power: Power | None,
    samples: int,
    decisions: bool,
    records: bool,
) -> State:
    """The state before the first event.

    Args:
        trace, policy, cluster, step_time, seed, power: as in `simulate`.
        prediction: what is known of the coming steps, `NO_PREDICTION` ... `EXPECTED` of the layout.
        refresh_every: produced tokens after which a prediction is old.
        samples: rows of the table of worker samples.
        decisions: whether a row is kept for every decision.
        records: whether every request's row is kept; otherwise they pass through a buffer.
    """
    drift: Drift = cluster.drift
    steps = drift.steps(trace)
    longest = int(steps.max())
    kind = 0 if drift.is_linear else (1 if drift.profiles is None else 2)
    scale = units_per_token(drift)
    sizes, slots, horizon = cluster.group_sizes, cluster.slots_of, horizon_of(policy)
    G, NG, B = cluster.workers, len(sizes), max(slots)
    sc = np.zeros(at.SCALARS, np.int64)
    sc[at.PHASE] = at.COMPLETE  # nothing to complete, but outages at step 0 fall due
    sc[[at.REQUESTS, at.WORKERS, at.GROUPS, at.HORIZON, at.SEED]] = len(trace), G, NG, horizon, seed
    closed = at.SESSIONS if cluster.think_s is None else at.USERS
    sc[at.ARRIVALS] = {"saturated": at.SATURATED, "timed": at.TIMED, "closed": closed}[cluster.arrivals]
    sc[at.POOL_TARGET], sc[at.MAY_HOLD] = cluster.pool, cluster.may_hold
    sc[at.INSTANT] = cluster.dispatch == "instant"
    sc[at.DEPTH] = ANY_DEPTH if cluster.queue_depth < 0 else cluster.queue_depth
    sc[[at.SCALE, at.TOKENS_PER_STEP, at.PROFILE_KIND]] = scale, drift.tokens_per_step, kind
    sc[at.DELTA] = round(drift.growth * scale) if kind == 0 else 0
    sc[at.RING_MASK] = _ring(longest + horizon + 1) - 1
    sc[at.WINDOW_MASK] = _ring(horizon + 1) - 1
    sc[[at.PREDICTION, at.REFRESH_EVERY]] = prediction, refresh_every
    sc[at.CURVE_STEPS] = horizon + -(-refresh_every // drift.tokens_per_step) + 1
    sc[at.KV_LIMITED] = np.isfinite(cluster.kv_tokens)
    sc[[at.ENERGY, at.KEEP]] = power is not None, records
    sc[at.RECORD_DECISIONS] = decisions
    sc[[at.SLOTS_ALL, at.SLOTS_MAX, at.STRIDE]] = sum(slots), B, int(samples > 0)
    sc[[at.OUTAGES_LEFT, at.OUTAGE_ROWS]] = len(cluster.outages)
    law = step_time.table()
    sc[at.LAW_KIND] = _law_kind(law)
    sc[at.SHORT] = not decisions and fits(cluster, law, horizon)
    rows = KEPT_ROWS if records else PASSING_ROWS
    if sc[at.SHORT] and not records:  # one decision's requests must find room
        rows = max(rows, sum(slots) + 8)
    sc[[at.RECORD_ROOM, at.DECISION_ROOM, at.SAMPLE_ROOM]] = rows, rows * decisions, samples
    sc[at.MEMORY_WORDS] = memory_size_of(policy)
    sc[at.PROJECTED] = horizon + 1 if horizon > 0 else 0
    table = at.root_table(1.0 - power.gamma) if power is not None else _NO_FLOATS
    sc[at.ROOT_SIZE] = table.size
    sc[at.LOOK_ROWS] = G * B if horizon > 0 else 0
    users = min(cluster.users or sum(slots), len(trace))
    pool_room = max(256, 4 * min(cluster.pool, len(trace))) if cluster.arrivals == "saturated" else 1024
    rooms = {
        at.POOL_ROOM: pool_room,
        at.HEAP_ROOM: max(64, 2 * users),
        at.CARRY_ROOM: 64,
        at.QUEUE_ROOM: max(64, G * B),
    }
    for name, room in rooms.items():
        sc[name] = room
    ints, floats = _shapes(sc, rooms, _scratch(policy, sc, pool_room))
    done = np.empty((len(trace) if records else rows, 2 if sc[at.SHORT] else 8), np.int64)
    state = State(
        ints=Buffer(np.int64, ints, INT_RECORDS),
        floats=Buffer(np.float64, floats, FLOAT_RECORDS),
        prompt=np.ascontiguousarray(trace.prompt_tokens, np.int64),
        output=np.ascontiguousarray(trace.output_tokens, np.int64),
        arrival=trace.arrival_s
        if cluster.arrivals == "timed" and trace.arrival_s is not None
        else _NO_FLOATS,
        columns=_columns(trace),
        request_class=trace.request_class,
        links=_links(trace) if sc[at.ARRIVALS] == at.SESSIONS else _NO_INTS,
        think=trace.column("think_s") if sc[at.ARRIVALS] == at.SESSIONS else _NO_FLOATS,
        profile=_profile(drift, kind, scale, longest + horizon + 1),
        law=np.ascontiguousarray(np.vstack([law.load[None, :], law.seconds])),
        cached=np.zeros((0, 0)),
        done_i=done,
        done_f=done.view(np.float64),
    )
    state.ints.window(at.SCALARS_I)[:] = sc
    state.floats.window(at.ROOT_TABLE)[:] = table
    _fill_floats(state, policy, cluster, step_time, law, drift, power, scale, horizon)
    _fill_fleet(state, cluster, sizes, slots)
    return state


def _law_kind(law: PiecewiseLinear) -> int:
    if law.longest_share > 0:
        return at.LINES_OF_LONGEST
    return at.ONE_LINE if is_linear(law) else at.LINES


def _fill_floats(
    state: State, policy: object, cluster: Any, step_time: StepTime, law: Any, drift: Drift, power: Power | None,
    scale: int, horizon: int,
) -> None:  # fmt: skip
    sf = state.floats.window(at.SCALARS_F)
    sf[at.UNIT] = 1.0 / scale
    slopes = (law.seconds[:, 1] - law.seconds[:, 0]) / (law.load[1] - law.load[0])
    sf[at.SLOPE], sf[at.LONGEST_SHARE] = slopes[0], law.longest_share
    sf[at.PREFILL_BASE], sf[at.PREFILL_TOKEN] = cluster.prefill_base_s, cluster.prefill_per_token_s
    sf[at.KV_TOKENS], sf[at.KV_RESERVE] = cluster.kv_tokens, cluster.kv_reserve
    sf[at.THINK] = cluster.think_s or 0.0
    workers = state.floats.window(at.WORKERS_F)
    workers[KV_FREE] = cluster.kv_tokens
    workers[SECONDS_PER_TOKEN] = np.resize(slopes, cluster.workers)
    state.floats.window(at.GROWTH)[:] = drift.gains(horizon)
    if compiled.kernel_of(policy) is not None:
        values = compiled.parameters(policy)
        state.floats.window(at.PARAMETERS)[: values.size] = values
    groups = state.floats.window(at.GROUP_FLOATS)
    groups[at.OVERHEAD] = [step_time.overhead_seconds(size) for size in cluster.group_sizes]
    if power is not None:
        sf[at.IDLE_W], sf[at.SPAN_W] = power.idle_w, power.max_w - power.idle_w
        sf[at.FULL_POWER_S] = drift.tokens_per_step * power.mfu_per_tokens_per_s / power.mfu_sat
        counts = np.arange(max(cluster.slots_of) + 1)
        state.floats.window(at.COUNT_POWER)[:] = (counts * sf[at.FULL_POWER_S]) ** power.gamma


def _fill_fleet(state: State, cluster: Any, sizes: tuple[int, ...], slots: tuple[int, ...]) -> None:
    ints = state.ints
    B = max(slots)
    workers = ints.window(at.WORKERS_I)
    workers[GROUP] = np.repeat(np.arange(len(sizes)), sizes)
    depth = int(ints.window(at.SCALARS_I)[at.DEPTH])
    workers[FREE_SLOTS] = np.array(slots) + depth
    ints.window(at.SCALARS_I)[at.FREE_TOTAL] = workers[FREE_SLOTS].sum()
    more = ints.window(at.WORKER_INTS)
    more[at.SLOTS_OF], more[at.UP] = slots, 1
    more[at.QUEUE_HEAD], more[at.QUEUE_TAIL], more[at.LONGEST_SLOT] = -1, -1, -1
    groups = ints.window(at.GROUP_INTS)
    groups[at.GROUP_SIZE] = sizes
    groups[at.BOUNDARY] = 2
    groups[at.GROUP_FIRST] = np.cumsum([0, *sizes[:-1]])
    ints.window(at.WORKER_OUT)[:] = -1
    if state.is_short:
        state.open_short()
        ints.window(at.BUCKETS)[:] = at.NO_SLOT
        links = ints.window(at.SLOT_INTS)[:, at.S_LINK]  # all are spare, each followed by the next
        links[:] = np.arange(1, links.size + 1)
        return
    ints.window(at.SLOT_INTS)[:, at.ROW] = -1
    stack = ints.window(at.FREE_STACK)
    for g, b in enumerate(slots):  # slot numbers of worker g, the lowest on top
        stack[g, :b] = g * B + np.arange(b)[::-1]
    ints.window(at.BUCKETS)[:] = -1
    _chain(ints.window(at.QUEUE_I), 0, -1)
    outages = ints.window(at.OUTAGES)
    for i, outage in enumerate(sorted(cluster.outages, key=lambda o: o.step)):
        outages[i] = outage.step, outage.worker, outage.back, 0


def _profile(drift: Drift, kind: int, scale: int, steps: int) -> I8:
    """Common gains by age, or offsets and loads of every request, in load units."""
    if kind == 0:
        return _NO_INTS
    if kind == 1:
        return np.round(cumulated(drift.sequence, steps) * scale).astype(np.int64)
    assert drift.profiles is not None
    offsets = drift.profiles.offsets
    loads = np.round(drift.profiles.values * scale).astype(np.int64)
    return np.concatenate([offsets + offsets.size, loads])


def _columns(trace: Trace) -> NDArray[np.int64]:
    """int64[2, N]: class and key of each request; empty when the trace has neither."""
    if trace.request_class is None and trace.session is None and trace.prompt_key is None:
        return _NO_COLUMNS
    session, key = trace.column("session"), trace.column("prompt_key")
    keys = np.where(session >= 0, session, np.where(key != 0, key, np.arange(len(trace))))
    return np.ascontiguousarray(np.vstack([trace.column("request_class"), keys]))


def _links(trace: Trace) -> I8:
    """Successors, sessions and roots as one list; `cluster_kernel` says what stands where."""
    n = len(trace)
    after, session = trace.column("after"), trace.column("session").copy()
    alone = session < 0
    session[alone] = session.max(initial=-1) + 1 + np.arange(int(alone.sum()))
    _, first, number = np.unique(session, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    session = rank[number]
    sessions = first.size
    children = np.zeros(n, np.int64)
    follows = np.flatnonzero(after >= 0)
    order = follows[np.argsort(after[follows], kind="stable")]
    children[: order.size] = order
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(after[follows], minlength=n), out=offsets[1:])
    roots = np.flatnonzero(after < 0)
    roots = roots[np.argsort(session[roots], kind="stable")]
    root_offsets = np.zeros(sessions + 1, np.int64)
    np.cumsum(np.bincount(session[roots], minlength=sessions), out=root_offsets[1:])
    left = np.bincount(session, minlength=sessions)
    return np.concatenate([offsets, children, session, left, root_offsets, roots, [sessions]]).astype(
        np.int64
    )
