"""Views as a saturated fleet shows them between two steps, for benchmarks of single decisions."""

from __future__ import annotations

import numpy as np

from evenstep.routing.view import RoutingView

SLOTS, MEAN_OUTPUT = 72, 270.0
#: Free slots a step: completions of a full fleet.
COMPLETIONS = SLOTS / MEAN_OUTPUT


def saturated_views(workers: int, waiting: int, horizon: int, count: int, seed: int = 0) -> list[RoutingView]:
    """`count` independent moments of G workers with 72 slots: most full, each step ends some requests.

    Prompts are lognormal(6.1, 1.15) clipped to 4..4096, outputs gamma(1.5, 180) clipped to 1..2000, ages uniform in
    the output; loads are evened out by chance only. Projections are the truth.
    """
    rng = np.random.default_rng(seed)
    return [_view(rng, workers, waiting, horizon, number) for number in range(count)]


def _prompts(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.floor(np.clip(rng.lognormal(6.1, 1.15, shape), 4, 4096))


def _view(rng: np.random.Generator, G: int, W: int, H: int, number: int) -> RoutingView:
    free = np.minimum(rng.poisson(COMPLETIONS, G), SLOTS)
    if free.sum() == 0:
        free[rng.integers(G)] = 1
    shape = (G, SLOTS)
    outputs = np.floor(np.clip(rng.gamma(1.5, 180, shape), 1, 2000))
    age = np.floor(outputs * rng.random(shape))
    left = np.where(np.arange(SLOTS) < (SLOTS - free)[:, None], outputs - age, 0.0)
    now = _prompts(rng, shape) + age
    projections = np.stack([np.where(left > h, now + h, 0.0).sum(1) for h in range(H + 1)], axis=1)
    # a good policy keeps loads even: pull them to their mean, keep the shape of what is ahead
    projections += np.floor(0.9 * (projections[:, 0].mean() - projections[:, 0]))[:, None]
    ids = np.arange(W, dtype=np.int64)
    return RoutingView(
        decision=number,
        seed=0,
        now_s=100.0,
        mean_wait_s=1.0,
        group=np.zeros(G, np.int64),
        queued=np.zeros(G, np.int64),
        queued_load=np.zeros(G),
        load=projections[:, 0].copy(),
        free_slots=free.astype(np.int64),
        running=(SLOTS - free).astype(np.int64),
        kv_free=np.full(G, np.inf),
        seconds_per_token=np.full(G, 1.1e-7),
        waiting_id=ids,
        waiting_load=_prompts(rng, (W,)),
        waited_s=np.linspace(4.0, 0.0, W),
        waiting_class=np.zeros(W, np.int64),
        waiting_key=ids,
        waiting_steps=np.full(W, np.nan),
        projections=projections,
        growth=np.arange(H + 1, dtype=np.float64),
        cached_tokens=np.zeros((0, 0)),
        memory=np.zeros(128, np.int64),
    )
