"""Every hypothesis strategy of the test suite: nobody else builds random views, traces or streams."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from evenstep.measure.records import Conditions, RequestTable, StepTable, Totals, columns
from evenstep.routing.view import RoutingView

# --- routing views -------------------------------------------------------------------------------------------


def _read_only(values: list[Any], kind: type, shape: tuple[int, ...] | None = None) -> Any:
    array = np.array(values, dtype=kind)
    if shape is not None:
        array = array.reshape(shape)
    array.setflags(write=False)
    return array


@st.composite
def routing_views(
    draw: st.DrawFn,
    *,
    kv_limited: bool | None = None,
    horizon: int = 0,
    memory: int = 0,
    workers: tuple[int, int] = (1, 8),
    waiting: tuple[int, int] = (0, 12),
    groups: tuple[int, int] = (1, 2),
    equal_slots: bool = False,
) -> RoutingView:
    """Consistent routing views of 1..8 workers in 1..2 groups with 0..12 waiting requests.

    KV loads are whole (or eighths) so that sums are exact; requests are oldest first, ids ascend.

    Args:
        kv_limited: True = finite `kv_free`, False = inf, None = either.
        horizon: H; `projections` has H+1 columns, column 0 is `load`.
        memory: words of `memory`, all >= 0.
        workers, waiting, groups: smallest and largest count, both included.
        equal_slots: every worker has the same number of slots, so ``running + queued + free_slots`` is constant.
    """
    G = draw(st.integers(*workers))
    W = draw(st.integers(*waiting))
    n_groups = min(G, draw(st.integers(*groups)))
    unit = draw(st.sampled_from([1.0, 1.0, 0.125]))

    def ints(low: int, high: int, count: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    def tokens(high: int, count: int) -> list[float]:
        return [unit * x for x in ints(0, int(high / unit), count)]

    small = draw(st.booleans())  # few different sizes: many ties
    size_limit = 6 if small else 4000
    slots = draw(st.integers(1, 6))
    free = ints(0, slots if equal_slots else 4, G)
    queued = ints(0, 2, G) if draw(st.booleans()) else [0] * G
    running = [
        max(0, slots - f - q) if equal_slots else r
        for f, q, r in zip(free, queued, ints(0, 6, G), strict=True)
    ]
    if equal_slots:
        queued = [slots - f - r for f, r in zip(free, running, strict=True)]
    load = [x if r else 0.0 for x, r in zip(tokens(20 if small else 20_000, G), running, strict=True)]
    queued_load = [x if q else 0.0 for x, q in zip(tokens(2 * size_limit, G), queued, strict=True)]
    limited = draw(st.booleans()) if kv_limited is None else kv_limited
    kv_free = tokens(3 * size_limit, G) if limited else [math.inf] * G
    projections = [[x, *tokens(20 if small else 20_000, horizon)] for x in load]
    mean_wait_s = draw(st.sampled_from([0.0, 0.5, 2.0]))
    waited = sorted((x / 4 for x in ints(0, 200, W)), reverse=True)
    ids = sorted(draw(st.lists(st.integers(0, 10_000), min_size=W, max_size=W, unique=True)))
    steps = [float(x) if x else math.nan for x in ints(0, 500, W)]
    costs = [1e-7] * G if draw(st.booleans()) else [1e-7 * (1 + x) for x in ints(0, 3, G)]
    return RoutingView(
        decision=draw(st.integers(0, 1000)),
        seed=draw(st.integers(0, 3)),
        now_s=256.0,
        mean_wait_s=mean_wait_s,
        group=_read_only(list(range(n_groups)) + ints(0, n_groups - 1, G - n_groups), np.int64),
        queued=_read_only(queued, np.int64),
        queued_load=_read_only(queued_load, np.float64),
        load=_read_only(load, np.float64),
        free_slots=_read_only(free, np.int64),
        running=_read_only(running, np.int64),
        kv_free=_read_only(kv_free, np.float64),
        seconds_per_token=_read_only(costs, np.float64),
        waiting_id=_read_only(ids, np.int64),
        waiting_load=_read_only([max(x, unit) for x in tokens(size_limit, W)], np.float64),
        waited_s=_read_only(waited, np.float64),
        waiting_class=_read_only(ints(0, 2, W), np.int64),
        waiting_key=_read_only(ids, np.int64),
        waiting_steps=_read_only(steps, np.float64),
        projections=_read_only(projections, np.float64, (G, horizon + 1)),
        growth=_read_only([float(h) for h in range(horizon + 1)], np.float64),
        cached_tokens=_read_only([], np.float64, (0, 0)),
        memory=_read_only(ints(0, 9, memory), np.int64),
    )


# --- record tables -------------------------------------------------------------------------------------------


@st.composite
def recorded_tables(draw: st.DrawFn) -> tuple[Conditions, StepTable, RequestTable, Totals]:
    """Tables of a run of 1..2 barrier groups: consistent row by row, of random loads, waits and fullness."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    slots, seed = draw(st.integers(1, 3)), draw(st.integers(0, 2**32 - 1))
    steps, requests = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    random = np.random.default_rng(seed)
    total = slots * sum(sizes)
    group = random.integers(0, len(sizes), steps)
    loads = [random.integers(1, 50, sizes[g]).astype(float) for g in group]
    envelope, load_sum, load_min = (np.array([f(x) for x in loads]) for f in (np.max, np.sum, np.min))
    busy = np.where(random.random(steps) < draw(st.sampled_from([0.1, 0.5, 0.9])), total, max(1, total // 2))
    start = np.cumsum(random.random(steps))
    step_table = StepTable(
        group, np.arange(steps), start, 1 + envelope / 8, envelope, load_sum, load_min, envelope / 8, load_sum / 8,
        busy // len(sizes), busy, busy * 0, busy, load_sum + 1, load_sum + 2,
    )  # fmt: skip
    visible, wait = np.sort(random.random(requests)) * 20, random.random(requests) * 5
    output = random.integers(1, 40, requests)
    first = visible + wait + 0.25
    request_table = RequestTable(
        random.permutation(requests), random.integers(0, sum(sizes), requests),
        random.integers(1, 5000, requests), output, visible, visible + wait, first, first + output * 0.3,
        np.arange(requests), np.arange(requests) + output - 1, random.integers(0, 2, requests),
    )  # fmt: skip
    makespan = float(max((start + step_table.duration_s).max(), request_table.finished_s.max(), 150.0 * steps))
    totals = Totals(
        requests, int(output.sum()), steps, steps, makespan, float(load_sum.sum()), int(busy.sum()),
        int(request_table.restarts.sum()), 0,
    )  # fmt: skip
    conditions = Conditions(sum(sizes), slots, total, sizes, (1.0,) * len(sizes), 0.125, "timed", 0, 0, "fcfs")
    return conditions, step_table, request_table, totals


def cut(draw: st.DataObject, table: Any) -> list[Any]:
    """A record table cut into chunks at random places; some chunks may be empty."""
    places = sorted(draw.draw(st.lists(st.integers(0, table.rows), max_size=5)))
    ends = [0, *places, table.rows]
    return [
        type(table)(**{name: column[a:b] for name, column in columns(table).items()})
        for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]
