"""What SIGTERM, and Ctrl-C, do to a command that takes its time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType


def terminated_like_ctrl_c() -> AbstractContextManager[None]:
    """Within the block SIGTERM does what Ctrl-C does there, even if that is ignored, as in the background of a shell.

    Mostly it raises KeyboardInterrupt; an `asyncio.Runner` ends its task first. Outside the main thread nothing changes.
    """

    def like_ctrl_c(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    return _handled(like_ctrl_c, signal.SIGTERM)


def until_told() -> AbstractContextManager[None]:
    """Within the block SIGINT and SIGTERM end the process with exit code 0, until a host handles them (`sockets.on_end`).

    They do so at once: an exception that comes while modules are imported may get lost. Outside the main thread nothing
    changes.
    """
    return _handled(lambda _number, _frame: os._exit(0), signal.SIGINT, signal.SIGTERM)


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
