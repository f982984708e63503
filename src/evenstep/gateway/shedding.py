"""The compiler's code is in memory once kernels are loaded, and nobody runs it again: its pages go back to the system."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_COMPILER = "llvmlite"


def shed_compiler() -> int:
    """Give the pages of the compiler's code back; the system reads them from its file again should they be needed.

    Only code that is as it is in the file is given back: nothing can have been written there.

    Returns:
        Bytes of address space that were given back; 0 where the system does not say what is in memory.
    """
    if not _MAPS.exists() or not hasattr(mmap, "MADV_DONTNEED"):
        return 0
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    shed = 0
    for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        place, rights, *_, path = line.split(maxsplit=5)
        if rights == "r-xp" and _COMPILER in path:
            begin, end = (int(part, 16) for part in place.split("-"))
            if advise(begin, end - begin, mmap.MADV_DONTNEED) == 0:
                shed += end - begin
    return shed
