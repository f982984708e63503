"""Calls compiled loops so that Ctrl-C is never lost in them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from evenstep.compiled import numba

#: Calls its first argument with the others, and returns the result.
Call = Callable[..., Any]


def at_once(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call a kernel without any care for signals."""
    return kernel(*arguments)


@contextmanager
def in_one_piece(*, has_kernel: bool = True) -> Generator[Call]:
    """Context manager that yields a function to call a `compiled.entry` with: no Python handler of a signal runs inside it.

    numba reads the arguments of an `entry` partly in Python. If a handler raises there, as that of Ctrl-C does, numba loses
    the exception and raises a TypeError of its own. So in the block, SIGINT and SIGTERM that come during a call are handled
    after it. The function is `at_once` outside the main thread, where no handler runs, and without `has_kernel`: Ctrl-C has
    to reach a policy in Python.
    """
    if numba is None or not has_kernel or threading.current_thread() is not threading.main_thread():
        yield at_once
        return
    is_inside, came = False, list[tuple[Callable[..., Any], int, Any]]()

    def call(kernel: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal is_inside
        is_inside = True
        try:
            return kernel(*arguments)
        finally:
            is_inside = False
            handle_those()

    def handle_those() -> None:
        while came:
            handler, number, frame = came.pop(0)
            handler(number, frame)

    def later(handler: Callable[..., Any]) -> Callable[[int, Any], None]:
        def handle(number: int, frame: Any) -> None:
            if is_inside:
                came.append((handler, number, frame))
            else:
                handler(number, frame)

        return handle

    with ExitStack() as after:
        after.callback(handle_those)  # those that came with one whose handler raised
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):  # neither ignored nor the system's own
                after.callback(signal.signal, number, handler)
                signal.signal(number, later(handler))
        yield call
