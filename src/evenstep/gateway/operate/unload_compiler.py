"""Releases memory pages of the compiler's code, which is not used again once kernels are loaded."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_COMPILER = "llvmlite"


def unload_compiler() -> int:
    """Release the pages of the compiler's code; the system reads them from the file again on demand.

    Only pages identical to the file are released: they are never written.

    Returns:
        Bytes of address space released; 0 if the system does not report what is in memory.
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
