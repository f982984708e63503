"""The kernel of a policy that has none: the compiled loop calls it as any other, and it asks Python.

A file of its own, because most runs do not need it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from evenstep.compiled import callback, route_kernel

#: ``answer(decision, now_s, mean_wait_s, first, waiting)`` writes the answer where the loop reads it and returns its bound.
Answer = Callable[[int, float, float, int, int], float]
_of_this_thread = threading.local()


@contextmanager
def answering(answer: Answer) -> Generator[None]:
    """Runs of this thread ask `answer`, which must not raise. A policy may start a run of its own."""
    before = getattr(_of_this_thread, "answer", None)
    _of_this_thread.answer = answer
    try:
        yield
    finally:
        _of_this_thread.answer = before


def _asked(decision: int, now_s: float, mean_wait_s: float, first: int, waiting: int) -> float:
    return _of_this_thread.answer(decision, now_s, mean_wait_s, first, waiting)


_ask = callback("evenstep_ask_policy", "float64(int64, float64, float64, int64, int64)", _asked)


@route_kernel
def route_into(
    decision: Any,
    seed: Any,
    now_s: Any,
    mean_wait_s: Any,
    first: Any,
    waiting: Any,
    workers_i: Any,
    workers_f: Any,
    waiting_i: Any,
    waiting_f: Any,
    projections: Any,
    growth: Any,
    cached: Any,
    memory: Any,
    parameters: Any,
    scratch_i: Any,
    scratch_f: Any,
    worker: Any,
) -> float:
    """See `routing.view`."""
    return _ask(decision, now_s, mean_wait_s, first, waiting)
