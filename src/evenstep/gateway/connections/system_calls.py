# pyright: basic
"""Calls of the system, as compiled code makes them: what is ready, read, write and tell the time, without Python."""

from __future__ import annotations

import platform
import socket
import time

import numpy as np

from evenstep.compiled import external, inlined, part_of

#: A read or write that neither waits nor raises a signal; the clock that `loop.time` reads.
AT_ONCE = getattr(socket, "MSG_NOSIGNAL", 0) | getattr(socket, "MSG_DONTWAIT", 0)
MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 0)
#: 32-bit words of an event as `epoll_wait` writes it: x86 packs them.
WORDS = 3 if platform.machine() in ("x86_64", "AMD64", "i386", "i686") else 4

epoll_wait = external("epoll_wait", "int32(int32, int64, int32, int32)")
recv = external("recv", "intp(int32, int64, intp, int32)")
send = external("send", "intp(int32, int64, intp, int32)")
clock_gettime = external("clock_gettime", "int32(int32, int64)")


@inlined
def read_into(file, base, offset, size):
    """Read from a socket into a part of an array that begins at `base`: bytes that came, or -1."""
    part_of(base, offset, size, np.uint8)  # the checked build sees whether it is one
    return recv(file, base + offset, size, AT_ONCE)


@inlined
def send_from(file, base, offset, size):
    """Write a part of an array that begins at `base` to a socket: bytes that were taken, or -1."""
    part_of(base, offset, size, np.uint8)
    return send(file, base + offset, size, AT_ONCE)


@inlined
def ready(epoll, base, most):
    """Have the events that are there written at `base`; how many they are."""
    part_of(base, 0, WORDS * most, np.int32)
    return max(0, epoll_wait(epoll, base, most, 0))


@inlined
def now_s(base):
    """Monotonic seconds, by way of two integers at `base`."""
    clock = part_of(base, 0, 2, np.int64)
    clock_gettime(MONOTONIC, base)
    return (clock[0] * 1_000_000_000 + clock[1]) / 1e9
