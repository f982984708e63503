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
    """Call a kernel, and let signals be handled as usual."""
    return kernel(*arguments)


#: For each call under way in the main thread, a function that stops holding signals back; the innermost call is last.
_releases = list[Callable[[], None]]()


def asks_python() -> None:
    """Set the handlers of signals as they were before the innermost call in one piece, and handle what came since.

    A loop that asks a policy in Python calls it at each question, where a handler may raise. It has an effect once a call.
    """
    if _releases and threading.current_thread() is threading.main_thread():
        _releases.pop()()


@contextmanager
def in_one_piece(*, has_kernel: bool = True) -> Generator[Call]:
    """Context manager that yields a function to call a `compiled.entry` with: no Python handler of a signal runs inside it.

    numba reads the arguments of an `entry` partly in Python. If a handler raises there, as that of Ctrl-C does, numba loses
    the exception and raises a TypeError of its own. So in the block, SIGINT and SIGTERM that come during a call are handled
    after it. Without `has_kernel` that ends at the loop's first question (`asks_python`): Ctrl-C has to reach a policy in
    Python. Outside the main thread, where no handler runs, the function is `at_once`.
    """
    if numba is None or threading.current_thread() is not threading.main_thread():
        yield at_once
    elif has_kernel:
        is_inside = False

        def call(kernel: Callable[..., Any], *arguments: Any) -> Any:
            nonlocal is_inside
            is_inside = True
            try:
                return kernel(*arguments)
            finally:
                is_inside = False
                handle_those()

        with _later(lambda: is_inside) as handle_those:
            yield call
    else:
        yield _until_asked


def _until_asked(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Call a kernel; signals that come before its first question are handled at that question."""
    with ExitStack() as held:
        held.enter_context(_later(lambda: True))
        _releases.append(held.close)
        held.callback(lambda: held.close in _releases and _releases.remove(held.close))
        return kernel(*arguments)


@contextmanager
def _later(is_held: Callable[[], bool]) -> Generator[Callable[[], None]]:
    """In the block, keep SIGINT and SIGTERM that come while `is_held()` is true; yields a function that handles those.

    At the end of the block the handlers are as before, and what was kept is handled.
    """
    came = list[tuple[Callable[..., Any], int, Any]]()

    def handle_those() -> None:
        while came:
            handler, number, frame = came.pop(0)
            handler(number, frame)

    def later(handler: Callable[..., Any]) -> Callable[[int, Any], None]:
        def handle(number: int, frame: Any) -> None:
            if is_held():
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
        yield handle_those
