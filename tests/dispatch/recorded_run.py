"""A decision log of a fleet in memory, with Poisson arrivals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.dispatch.engines import Barrier
from tests.dispatch.test_core import small_trace

from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.log.file import LogFile
from evenstep.dispatch.settings import Settings


def record(
    path: Path,
    policy: str = "jsq",
    *,
    predictor: str = "",
    requests: int = 300,
    per_s: float = 300.0,
    workers: int = 4,
    slots: int = 16,
) -> tuple[Barrier, list[float]]:
    """Write the log; the fleet as it was at the end, and the arrival times."""
    trace, file = small_trace(requests), LogFile(path)
    settings = Settings(ttl_s=1e9, gather_ms=0.0, stale_s=1e9)
    dispatcher = Dispatcher(policy, predictor=predictor, settings=settings, log=file)
    barrier = Barrier(dispatcher, workers, slots, trace.prompt_tokens, trace.output_tokens)
    due = np.cumsum(np.random.default_rng(3).exponential(1 / per_s, requests)).tolist()
    arrived: list[float] = []
    while len(barrier.finished) < requests:
        if not any(barrier.at) and len(arrived) < requests:
            barrier.now_s = max(barrier.now_s, due[len(arrived)])
        while len(arrived) < requests and due[len(arrived)] <= barrier.now_s:
            prompt = int(trace.prompt_tokens[len(arrived)])
            barrier.tell(ev.Arrived(now_s=barrier.now_s, request=len(arrived), prompt_tokens=prompt))
            arrived.append(barrier.now_s)
        barrier.tell(ev.Tick(now_s=barrier.now_s))
        barrier.advance()
    file.close()
    return barrier, arrived
