"""What SIGTERM does to a command of its own, which runs until it is told to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress


@contextmanager
def terminated_like_ctrl_c() -> Generator[None]:
    """Within the block SIGTERM raises KeyboardInterrupt, like Ctrl-C. Outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set a signal handler
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def until_told() -> Generator[None]:
    """End the block without an error at SIGINT or SIGTERM, until a host in it handles them itself (`sockets.on_end`)."""
    with suppress(KeyboardInterrupt), terminated_like_ctrl_c():
        yield
