"""Lets one process compile a kernel while others that need it wait and then load the result.

The lock of a kernel is one byte of a file in the folder of compiled kernels, locked by the system. The system frees the
locks of a process that dies. A folder that cannot be written, or a system without such locks, has no locks: each process
then compiles by itself.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from evenstep import kernel_cache

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None

#: Seconds after which a process no longer waits for another, and compiles by itself.
PATIENCE_S = 600.0
_LOOK_S = 0.05


class Locks:
    """The locks of one folder's kernels between processes. Between threads they do not lock; numba does.

    Args:
        file: the file whose bytes are locked; it is created if missing, and nothing is written to it. None, or a file that
            cannot be opened = nothing is locked.
        say: called once before each wait for another process.
        pause: sleeps for the given seconds between two tries; callers may replace the attribute.
    """

    def __init__(
        self, file: Path | None, say: Callable[[], None] = lambda: None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._say, self.pause = say, pause
        self._held: dict[int, int] = {}  # byte -> number of `take`s: a kernel may be compiled for two signatures
        self._file = -1
        if file is not None and fcntl is not None:
            with suppress(OSError):
                self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def take(self, kernel: str) -> None:
        """Lock a kernel, named by any text. Blocks while another process holds it, `PATIENCE_S` at most.

        After that time it returns without the lock. A process may take a kernel several times; each call needs a `release`.
        """
        if self._file < 0:
            return
        byte = zlib.crc32(kernel.encode())
        self._held[byte] = self._held.get(byte, 0) + 1
        waited_s = 0.0
        while self._held[byte] == 1 and not self._is_ours(byte) and waited_s < PATIENCE_S:
            if waited_s == 0.0:
                self._say()
            self.pause(_LOOK_S)
            waited_s += _LOOK_S

    def release(self, kernel: str) -> None:
        """Undo one `take` of a kernel; the last one frees the lock. Does nothing for a kernel that was not taken."""
        byte = zlib.crc32(kernel.encode())
        if byte not in self._held:
            return
        self._held[byte] -= 1
        if self._held[byte] == 0:
            del self._held[byte]
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)  # pyright: ignore[reportOptionalMemberAccess]

    def _is_ours(self, byte: int) -> bool:
        """Try to lock the byte. True if this process has it now, or if the file system has no locks."""
        assert fcntl is not None
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # another process has it
            return False
        except OSError:  # a file system without locks
            return True
        return True


@cache
def locks() -> Locks:
    """The one `Locks` of this process, for the folder where it keeps kernels; it announces waits to operators."""
    return Locks(kernel_cache.place().lock_file(), kernel_cache.announce.waiting)
