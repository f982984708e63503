"""How compiled loops call Python for the answer of a policy that has no kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from evenstep.compiled import callback


def question(symbol: str, signature: str) -> tuple[Any, Callable[[Callable[..., float]], AbstractContextManager[None]]]:
    """Make a callback by which compiled loops call Python, and a context manager that sets the Python function to call.

    `symbol` is a name unique in the program, `signature` the types of result and arguments, ``float64(int64, ...)``. The
    second result, ``answering(function)``, sets the function for loops that the same thread runs inside the ``with`` block,
    and restores the previous one at its end. The function gets the callback's arguments, and its result is the callback's
    result. It must not raise; it may start another run. The callback must not be called while no function is set.
    """
    of_this_thread = threading.local()

    @contextmanager
    def answering(answer: Callable[..., float]) -> Generator[None]:
        before = getattr(of_this_thread, "answer", None)
        of_this_thread.answer = answer
        try:
            yield
        finally:
            of_this_thread.answer = before

    def asked(*words: float) -> float:
        return of_this_thread.answer(*words)

    return callback(symbol, signature, asked), answering
