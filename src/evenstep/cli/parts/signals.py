"""What SIGTERM, and Ctrl-C, do to a command that takes its time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminated_like_ctrl_c() -> Generator[None]:
    """Within the block SIGTERM raises KeyboardInterrupt, like Ctrl-C. Outside the main thread nothing changes."""
    with _handled(signal.default_int_handler, signal.SIGTERM):
        yield


@contextmanager
def until_told() -> Generator[None]:
    """Within the block SIGINT and SIGTERM end the process with exit code 0, until a host handles them (`sockets.on_end`).

    They do so at once: an exception that comes while modules are imported may get lost. Outside the main thread nothing
    changes.
    """
    with _handled(lambda _number, _frame: os._exit(0), signal.SIGINT, signal.SIGTERM):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Generator[None]:
    """Let a function handle these signals within the block."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set a signal handler
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
