"""How compiled loops ask Python for the answer of a policy that has no kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from evenstep.compiled import callback


def question(symbol: str, signature: str) -> tuple[Any, Callable[[Callable[..., float]], AbstractContextManager[None]]]:
    """Make a callback through which compiled loops ask Python, and a context manager that installs the answering function.

    The answering function holds for loops that the installing thread runs inside the block; the one before then returns.
    It must not raise, and may start a run of its own. A call without one is an error.

    Args:
        symbol, signature: as in `compiled.callback`.

    Returns:
        The callback, which kernels call with the numbers of `signature`; and ``answering(function)``, which installs the
        function for a ``with`` block. The function gets the same numbers, and its result is the callback's.
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
