"""The kernel of a policy that has none: the compiled loop calls it as any other, and it asks Python.

A file of its own, because most runs do not need it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from evenstep.compiled import batch_kernel, callback

#: ``answer(iteration, now_s)`` writes the answer where the loop reads it, and returns the policy's `wake_s`.
Answer = Callable[[int, float], float]
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


def _asked(iteration: int, now_s: float) -> float:
    return _of_this_thread.answer(iteration, now_s)


_ask = callback("evenstep_ask_batch_policy", "float64(int64, float64)", _asked)


@batch_kernel
def form_batch_into(
    iteration: Any,
    seed: Any,
    now_s: Any,
    limits: Any,
    running: Any,
    waiting: Any,
    first: Any,
    counts: Any,
    rows: Any,
    arrival_s: Any,
    arrived: Any,
    memory: Any,
    parameters: Any,
    scratch_i: Any,
    scratch_f: Any,
    picked: Any,
    evicted: Any,
) -> float:
    """See `scheduling.view`."""
    return _ask(iteration, now_s)
