# pyright: basic
"""Calls of the system, as compiled code makes them: what is ready, read, write and tell the time, without Python."""

from __future__ import annotations

import platform
import socket
import time

from evenstep.compiled import external

#: A read or write that neither waits nor raises a signal; the clock that `loop.time` reads.
AT_ONCE = getattr(socket, "MSG_NOSIGNAL", 0) | getattr(socket, "MSG_DONTWAIT", 0)
MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 0)
#: 32-bit words of an event as `epoll_wait` writes it: x86 packs them.
WORDS = 3 if platform.machine() in ("x86_64", "AMD64", "i386", "i686") else 4

epoll_wait = external("epoll_wait", "int32(int32, int64, int32, int32)")
recv = external("recv", "intp(int32, int64, intp, int32)")
send = external("send", "intp(int32, int64, intp, int32)")
clock_gettime = external("clock_gettime", "int32(int32, int64)")
