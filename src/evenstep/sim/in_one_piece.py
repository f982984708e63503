"""Calls a compiled loop so that Ctrl-C is never lost in it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from evenstep.compiled import numba


def in_one_piece(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call a `compiled.entry`, and run the Python handlers of SIGINT and SIGTERM only after it.

    numba reads the arguments of an `entry` partly in Python. If a handler raises there, as that of Ctrl-C does, numba loses
    the exception and raises a TypeError of its own. Outside the main thread, where no handler runs, this is a plain call.
    """
    if numba is None or threading.current_thread() is not threading.main_thread():
        return kernel(*arguments)
    came: list[tuple[Callable[..., Any], int, Any]] = []
    try:
        with ExitStack() as after:
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):  # neither ignored nor the system's own
                    after.callback(signal.signal, number, handler)
                    signal.signal(number, lambda number, frame, handler=handler: came.append((handler, number, frame)))
            return kernel(*arguments)
    finally:
        for handler, number, frame in came:
            handler(number, frame)
