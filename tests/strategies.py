"""Every hypothesis strategy of the test suite: nobody else builds random views, traces or streams."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

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
